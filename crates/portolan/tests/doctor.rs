//! `portolan doctor` and `portolan explain` as processes, with files and with an API server.

mod support;

use std::io::Write as _;
use std::path::Path;

use client::{Client, Config, JSON};
use serde_json::{Value, json};
use support::{Api, run};

/// Runs `portolan doctor -o json` and returns exit code, codes of the findings and their names.
fn doctor(arguments: &[&str], input: &str) -> (Option<i32>, Vec<(String, String)>) {
    let output = run(&[&["doctor", "-o", "json"], arguments].concat(), input);
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let findings = report["findings"].as_array().expect("a list");
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    let names = findings
        .iter()
        .map(|finding| (text(&finding["code"]), text(&finding["object"]["name"])));
    (output.status.code(), names.collect())
}

fn healthy_worlds() -> Vec<std::path::PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../explain/tests/worlds/healthy");
    let entries = std::fs::read_dir(folder).expect("healthy worlds");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

#[test]
fn healthy_files_have_no_findings() {
    for path in healthy_worlds() {
        let path = path.display().to_string();
        assert_eq!(
            doctor(&["--from-file", &path], ""),
            (Some(0), Vec::new()),
            "{path}"
        );
    }
}

#[test]
fn exit_code_distinguishes_findings_from_failures() {
    let service = json!({"kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    let pod =
        json!({"kind": "Pod", "metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "wbe"}}});
    let input = format!("{service}\n{pod}");
    let finding = |code: &str| (Some(1), vec![(code.to_owned(), "web".to_owned())]);
    assert_eq!(doctor(&["--from-file", "-"], &input), finding("PTL-0002"));
    assert_eq!(
        doctor(&["service", "default/web", "--from-file", "-"], &input),
        finding("PTL-0001")
    );
    let empty = r#"{"apiVersion": "v1", "kind": "List", "items": []}"#;
    assert_eq!(doctor(&["--from-file", "-"], empty), (Some(0), Vec::new()));
    assert_eq!(
        doctor(&["service", "shop/web", "--from-file", "-"], empty),
        finding("PTL-0001")
    );
    let code = |arguments: &[&str]| run(arguments, "").status.code();
    assert_eq!(code(&["doctor", "--from-file", "/does/not/exist"]), Some(2));
    assert_eq!(code(&["doctor", "--kubeconfig", "/does/not/exist"]), Some(2));
    assert_eq!(code(&["doctor", "service", "a/b/c", "--from-file", "-"]), Some(2));
    assert_eq!(code(&["explain", "PTL-0002"]), Some(0));
    assert_eq!(code(&["explain", "PTL-9999"]), Some(2));
}

/// Runs asynchronous work with a client of the API server.
fn with_client<T>(api: &Api, work: impl AsyncFnOnce(Client) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let config = Config::from_kubeconfig(&api.kubeconfig()).expect("a kubeconfig");
    runtime.block_on(async { work(Client::new(config).expect("a client")).await })
}

/// Creates a Service whose selector matches no Pod.
fn create_service_without_pods(api: &Api) {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    let services = "/api/v1/namespaces/default/services";
    with_client(api, async |client| {
        let created = client
            .request(http::Method::POST, services, JSON, Some(&service))
            .await;
        created.expect("a Service");
    });
}

#[test]
fn repeated_examination_records_event_and_metrics() {
    let api = Api::start();
    create_service_without_pods(&api);
    let port = support::free_tcp_port();
    let _doctor = support::portolan(&[
        "doctor",
        "--interval=1s",
        &format!("--metrics-bind-address=127.0.0.1:{port}"),
        &format!("--kubeconfig={}", api.kubeconfig().display()),
    ]);
    let message = |events: &Value| {
        let events = events["items"].as_array().cloned().unwrap_or_default();
        let event = events
            .into_iter()
            .find(|event| event["reason"] == "ServiceFinding" && event["involvedObject"]["name"] == "web")?;
        assert_eq!(event["type"], "Warning");
        assert!(
            event["involvedObject"]["uid"]
                .as_str()
                .is_some_and(|uid| !uid.is_empty())
        );
        event["message"].as_str().map(str::to_owned)
    };
    let mut recorded = None;
    support::wait_for("an Event about the Service", || {
        let events = with_client(&api, async |client| {
            client.get::<Value>("/api/v1/namespaces/default/events").await
        });
        recorded = message(&events.expect("Events"));
        recorded.is_some()
    });
    let recorded = recorded.expect("a message");
    assert!(
        recorded.starts_with("PTL-0002: The selector app=web matches no Pod"),
        "{recorded}"
    );
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("the metrics server");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: doctor\r\nConnection: close\r\n\r\n")
        .expect("a request");
    let metrics = std::io::read_to_string(stream).expect("metrics");
    let line = "portolan_doctor_findings{code=\"PTL-0002\",severity=\"error\"} 1\n";
    assert!(metrics.contains(line), "{metrics}");
}

#[test]
fn flags_of_repeated_examinations_are_checked() {
    let code = |arguments: &[&str]| run(&[&["doctor"], arguments].concat(), "").status.code();
    assert_eq!(code(&["--interval=10ms"]), Some(2));
    assert_eq!(code(&["--interval=1m", "--from-file=-"]), Some(2));
    assert_eq!(code(&["service", "default/web", "--interval=1m"]), Some(2));
}

#[test]
fn api_server_is_examined() {
    let api = Api::start();
    let kubeconfig = api.kubeconfig().display().to_string();
    let flags = ["--kubeconfig", kubeconfig.as_str()];
    create_service_without_pods(&api);
    let expected = vec![("PTL-0002".to_owned(), "web".to_owned())];
    let (code, findings) = doctor(&[&flags[..], &["service", "default/web"]].concat(), "");
    assert_eq!((code, findings), (Some(1), expected));
    let (code, findings) = doctor(&[&flags[..], &["service", "default/cart"]].concat(), "");
    assert_eq!(
        (code, findings),
        (Some(1), vec![("PTL-0001".to_owned(), "cart".to_owned())])
    );
    // The server listens on loopback, which no Pod reaches, so it writes no endpoints for itself.
    let (code, findings) = doctor(&[&flags[..], &["service", "default/kubernetes"]].concat(), "");
    let expected = vec![("PTL-0012".to_owned(), "kubernetes".to_owned())];
    assert_eq!((code, findings), (Some(1), expected));
}
