//! `portolan chart` with a real API server, as a process and as the component of `portolan up`, and drawings of files.

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use chart::feed::{Feed, KINDS_OF_COMPONENT};
use chart::server::Server;
use chart::server::access::Access;
use client::{Client, Config, JSON};
use http::Method;
use serde_json::{Value, json};
use support::{Api, Component, TOKEN, program, run, wait_for};

/// Sends a request and returns status, headers and body.
fn send(address: &str, method: &str, path: &str, headers: &[&str], body: &str) -> (u16, String, String) {
    let more: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{more}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.write_all(request.as_bytes()).expect("a sent request");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    let (head, body) = response.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    (status.expect("a status"), head.to_owned(), body.to_owned())
}

/// Logs in. Returns the cookie, or the status and the message of the refusal.
fn log_in(address: &str, token: &str) -> Result<String, (u16, String)> {
    let body = json!({"token": token}).to_string();
    let (status, head, body) = send(
        address,
        "POST",
        "/api/session",
        &["Content-Type: application/json"],
        &body,
    );
    if status != 204 {
        let message: Value = serde_json::from_str(&body).expect("a message");
        return Err((status, message["message"].as_str().expect("a text").to_owned()));
    }
    let cookie = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("set-cookie").then_some(value)
    });
    let pair = cookie.expect("a cookie").split(';').next();
    Ok(format!("Cookie: {}", pair.expect("a pair")))
}

/// Logs in until the server accepts it: it limits the rate of logins.
fn wait_for_session(address: &str, token: &str) -> String {
    let mut cookie = None;
    wait_for("a session", || {
        cookie = log_in(address, token).ok();
        cookie.is_some()
    });
    cookie.expect("a session")
}

fn get(address: &str, path: &str, cookie: &str) -> (u16, Value) {
    let (status, _, body) = send(address, "GET", path, &[cookie], "");
    (status, serde_json::from_str(&body).expect("JSON"))
}

/// Waits until the snapshot has a Service with a property.
fn snapshot_with(address: &str, cookie: &str, subject: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let mut found = Value::Null;
    wait_for(subject, || {
        let (status, snapshot) = get(address, "/api/snapshot", cookie);
        assert!(status == 200 || status == 503, "{status}: {snapshot}");
        found = snapshot;
        let services = found["services"].as_array().into_iter().flatten();
        services.filter(|row| row["name"] == "web").any(&holds)
    });
    found
}

fn web() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}})
}

fn slice() -> Value {
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "web-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "web"}},
        "ports": [{"name": "", "port": 8080}], "endpoints": [{"addresses": ["10.244.0.7"]}]})
}

async fn create(client: &Client, path: &str, object: &Value) -> Value {
    let created = client.request(Method::POST, path, JSON, Some(object)).await;
    created.expect("a created object")
}

/// Starts `portolan chart` and returns its address and its first secret.
fn start_command(api: &Api) -> (Component, String, String) {
    let mut child = Command::new(program())
        .args([
            "chart",
            "--bind-address=127.0.0.1:0",
            "--log-level=warn",
            "--kubeconfig",
        ])
        .arg(api.kubeconfig())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary under test");
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let component = Component::from(child);
    let mut lines = output.lines();
    let url = lines
        .find_map(|line| Some(line.expect("a line").trim().strip_prefix("http://")?.to_owned()))
        .expect("a URL");
    // The process prints more URLs.
    std::thread::spawn(move || lines.for_each(drop));
    let (address, secret) = url.split_once("/#login=").expect("a secret in the fragment");
    (component, address.to_owned(), secret.to_owned())
}

#[test]
fn command_shows_the_cluster_of_its_kubeconfig() {
    let api = Api::start();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let client =
        Client::new(Config::from_kubeconfig(&api.kubeconfig()).expect("a kubeconfig")).expect("a client");
    runtime.block_on(create(&client, "/api/v1/namespaces/default/services", &web()));
    let (component, address, secret) = start_command(&api);
    assert_eq!(send(&address, "GET", "/api/snapshot", &[], "").0, 401);
    let cookie = log_in(&address, &secret).expect("a session");
    assert_eq!(log_in(&address, &secret).expect_err("a used secret").0, 401);
    assert_eq!(log_in(&address, TOKEN).expect_err("no token of the API").0, 401);
    let (_, session) = get(&address, "/api/session", &cookie);
    assert_eq!(session["authentication"], "local");
    let snapshot = snapshot_with(&address, &cookie, "a Service without endpoints", |row| {
        row["total"] == 0 && row["health"] == "error"
    });
    assert_eq!(snapshot["trafficKnown"], false);
    let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    runtime.block_on(create(&client, path, &slice()));
    snapshot_with(&address, &cookie, "an endpoint", |row| row["ready"] == 1);
    let (status, detail) = get(&address, "/api/services/default/web", &cookie);
    assert_eq!(
        (status, &detail["endpoints"][0]["address"]),
        (200, &json!("10.244.0.7"))
    );
    let mut trace = Value::Null;
    wait_for("a trace", || {
        let (status, found) = get(
            &address,
            "/api/trace?url=tcp://web.default:80&from=203.0.113.9",
            &cookie,
        );
        trace = found;
        status == 200
    });
    assert!(trace["verdict"].is_string(), "{trace}");
    assert!(component.stop().success());
}

#[test]
fn token_needs_the_rights_of_the_chart() {
    let api = Api::start();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let config = Config::from_kubeconfig(&api.kubeconfig()).expect("a kubeconfig");
    let client = Client::new(config.clone()).expect("a client");
    let tokens = runtime.block_on(async {
        create(&client, "/api/v1/namespaces/default/services", &web()).await;
        let mut tokens = Vec::new();
        for name in ["reader", "stranger"] {
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
            let path = "/api/v1/namespaces/default/serviceaccounts";
            create(&client, path, &account).await;
            let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
            let token = create(&client, &format!("{path}/{name}/token"), &request).await;
            tokens.push(token["status"]["token"].as_str().expect("a token").to_owned());
        }
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:portolan-chart"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}]});
        create(&client, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await;
        tokens
    });
    let address = runtime.block_on(async {
        let listening = Server::listen("127.0.0.1:0".parse().expect("an address")).expect("a listener");
        let address = listening.1.to_string();
        let feed = Feed::new(client.clone(), "test", &KINDS_OF_COMPONENT);
        let server = Server::new(listening, feed, Access::by_token(&config), "cluster.local");
        tokio::spawn(server.run());
        address
    });
    for invalid in ["", "not a token", "eyJhbGciOiJub25lIn0.e30.", "two\nlines"] {
        let (status, _) = log_in(&address, invalid).expect_err("a refusal");
        assert!(status == 400 || status == 401, "{invalid:?}: {status}");
    }
    let (status, message) = log_in(&address, &tokens[1]).expect_err("a refusal");
    assert_eq!(status, 403, "{message}");
    for missing in [
        "list Service",
        "list Node",
        "get nodes/flows",
        "system:portolan-chart",
    ] {
        assert!(message.contains(missing), "{message}");
    }
    let reader = wait_for_session(&address, &tokens[0]);
    let (_, session) = get(&address, "/api/session", &reader);
    assert_eq!(
        session,
        json!({"user": "system:serviceaccount:default:reader", "authentication": "token"})
    );
    snapshot_with(&address, &reader, "a Service", |row| {
        row["namespace"] == "default"
    });
    let administrator = wait_for_session(&address, TOKEN);
    assert_eq!(get(&address, "/api/session", &administrator).1["user"], "tester");
}

#[test]
fn drawings_of_files_need_no_cluster() {
    let input = json!({"kind": "List", "apiVersion": "v1", "items": [web(), slice()]}).to_string();
    let draw = |arguments: &[&str]| {
        let output = run(&[&["chart", "--from-file", "-"], arguments].concat(), &input);
        let text = String::from_utf8(output.stdout).expect("a text");
        (output.status.code(), text)
    };
    for (format, start) in [
        ("svg", "<svg "),
        ("dot", "digraph chart {"),
        ("mermaid", "flowchart LR\n"),
    ] {
        let (code, text) = draw(&["-o", format]);
        assert_eq!(code, Some(0));
        assert!(text.starts_with(start) && text.contains("10.244.0.7"), "{text}");
        assert_eq!(draw(&["-o", format, "service", "default/web"]).0, Some(0));
        assert_eq!(draw(&["-o", format, "-n", "absent"]), (Some(1), String::new()));
    }
    assert_eq!(draw(&[]).0, Some(2), "the page shows no files");
    assert_eq!(draw(&["-o", "png"]).0, Some(2));
    let listening = run(
        &["chart", "--bind-address", "0.0.0.0:0", "--kubeconfig", "/absent"],
        "",
    );
    assert_eq!(listening.status.code(), Some(1));
}

/// A program that listens on the port first would get the secret from a user who opens the URL.
#[test]
fn command_prints_no_url_of_the_listener_of_another_program() {
    let api = Api::start();
    let foreign = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = foreign.local_addr().expect("an address");
    let kubeconfig = api.kubeconfig().display().to_string();
    let bind = format!("--bind-address={address}");
    let output = run(&["chart", "--kubeconfig", &kubeconfig, &bind], "");
    assert!(!output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains(&address.to_string()), "{errors}");
}
