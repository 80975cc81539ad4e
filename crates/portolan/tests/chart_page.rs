//! The web page of `portolan chart` in a browser, with the real server and an API server.

mod support;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use client::{Client, Config, JSON};
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use support::{Api, Component};

/// Interval in which Services are created while the browser runs.
const CREATE_INTERVAL: Duration = Duration::from_secs(1);
/// Version that the tests of the page need.
const NODE_MAJOR_MIN: u32 = 20;
/// Programs as which Chromium is installed.
const CHROMIUM: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// Services that change while the page is open. The variable `PORTOLAN_HOSTILE_SERVICES` has another number, such as 10000.
const HOSTILE_SERVICES: usize = 300;
/// Requests at the same time that change Services.
const WRITERS: usize = 8;
/// Memory of the server of the page in KiB: caches, examinations and history. Each Service adds memory for its row,
/// its tree and its part of responses.
const CHART_KIB: u64 = 256 << 10;
const CHART_KIB_OF_SERVICE: u64 = 40;
/// Texts that attack a page: markup, an end of a script, a link, reordering, control characters, and a long one.
const ATTACKS: [&str; 5] = [
    "<img src=x onerror=window.injected=1>",
    "</script><script>window.injected=1</script>",
    "[click](javascript:window.injected=1) <svg onload=window.injected=1>",
    "\u{202e}txt.exe\u{202c} \u{2066}\u{200b}",
    "{{constructor.constructor('window.injected=1')()}} __proto__",
];

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../chart/page")
}

/// Returns the major version of Node.js: 20 for `v20.20.2`.
fn node_major() -> Option<u32> {
    let output = Command::new("node").arg("--version").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    version.trim_start_matches('v').split('.').next()?.parse().ok()
}

/// Returns true if Node.js, the npm packages and Chromium are installed; otherwise prints that the test is skipped.
fn has_browser(test: &str) -> bool {
    if node_major().is_none_or(|major| major < NODE_MAJOR_MIN) {
        println!("skipped: {test}: Node.js {NODE_MAJOR_MIN} or later is not installed");
        return false;
    }
    if !page().join("node_modules/playwright-core").exists() {
        println!("skipped: {test}: the npm packages are not installed, run npm ci in crates/chart/page");
        return false;
    }
    if !CHROMIUM
        .iter()
        .any(|program| support::is_installed(program, "--version"))
    {
        println!("skipped: {test}: Chromium is not installed");
        return false;
    }
    true
}

/// Creates the ServiceAccount that Pods of a namespace need. The server creates it, too.
async fn create_account(client: &Client, namespace: &str) {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    let created = client
        .request(http::Method::POST, &accounts, JSON, Some(&account))
        .await;
    if let Err(error) = created {
        assert!(error.to_string().contains("AlreadyExists"), "{error}");
    }
}

/// Creates an object, also one whose namespace is new.
async fn create(client: &Client, collection: &str, object: Value) {
    let created = client
        .request(http::Method::POST, collection, JSON, Some(&object))
        .await;
    created.unwrap_or_else(|error| panic!("{collection}: {error}"));
}

/// Creates two namespaces, two nodes, and two Services. One has two endpoints. The selector of the other one matches
/// no Pod, while a Pod has nearly the same labels.
async fn create_objects(client: &Client) {
    for name in ["shop", "late"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        create(client, "/api/v1/namespaces", namespace).await;
    }
    for (name, zone) in [("node-a", "east"), ("node-b", "west")] {
        let labels = json!({"topology.kubernetes.io/zone": zone});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
        create(client, "/api/v1/nodes", node).await;
    }
    let services = "/api/v1/namespaces/shop/services";
    let ports = json!([{"name": "http", "port": 80, "targetPort": 8080}]);
    let web = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"clusterIP": "10.96.0.80", "ports": ports}});
    create(client, services, web).await;
    let checkout = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "checkout"},
        "spec": {"selector": {"app": "checkout"}, "ports": ports}});
    create(client, services, checkout).await;
    create_account(client, "shop").await;
    // The labels of the Pod name the wrong key.
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "checkout-1", "labels": {"run": "checkout"}},
        "spec": {"containers": [{"name": "main", "image": "none"}]}});
    create(client, "/api/v1/namespaces/shop/pods", pod).await;
    let endpoint = |address: &str, node: &str, zone: &str| json!({"addresses": [address], "nodeName": node, "zone": zone, "conditions": {"ready": true}});
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [endpoint("10.244.1.2", "node-a", "east"), endpoint("10.244.2.2", "node-b", "west")]});
    create(
        client,
        "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices",
        slice,
    )
    .await;
}

/// Starts `portolan chart` and returns it with the URL that it prints.
fn start_chart(api: &Api) -> (Component, String) {
    let mut chart = Command::new(support::program())
        .args(["chart", "--log-level=warn", "--cluster-name=test"])
        .arg(format!("--kubeconfig={}", api.kubeconfig().display()))
        .arg(format!("--bind-address=127.0.0.1:{}", support::free_tcp_port()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary under test");
    let mut lines = BufReader::new(chart.stdout.take().expect("a pipe"))
        .lines()
        .map(|line| line.expect("a line of text"));
    let url = lines
        .find(|line| line.contains("#login="))
        .expect("a URL with a secret");
    // The chart prints the next URL after a sign-in.
    std::thread::spawn(move || lines.for_each(drop));
    (Component::from(chart), url.trim().to_owned())
}

/// Starts the tests of a folder in the browser.
fn start_browser(url: &str, tests: &str) -> Child {
    Command::new("node")
        .args(["scripts/run.mjs", tests])
        .current_dir(page())
        .env("PORTOLAN_CHART_URL", url)
        .env("PORTOLAN_HOSTILE_SERVICES", hostile_services().to_string())
        .stdin(Stdio::null())
        .spawn()
        .expect("Node.js")
}

#[test]
fn page_shows_and_follows_the_cluster() {
    if !has_browser("page_shows_and_follows_the_cluster") {
        return;
    }
    let api = Api::start();
    let config = Config::from_kubeconfig(&api.kubeconfig()).expect("a kubeconfig");
    let client = Client::new(config).expect("a client");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(create_objects(&client));
    let (_chart, url) = start_chart(&api);
    let mut browser = start_browser(&url, "test/real");
    let mut number = 0;
    let status = loop {
        if let Some(status) = browser.try_wait().expect("the state of Node.js") {
            break status;
        }
        number += 1;
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("late-{number}")},
            "spec": {"ports": [{"port": 80}]}});
        runtime.block_on(create(&client, "/api/v1/namespaces/late/services", service));
        std::thread::sleep(CREATE_INTERVAL);
    };
    assert!(
        status.success(),
        "the tests in crates/chart/page/test/real passed"
    );
}

/// Number of Services that change.
fn hostile_services() -> usize {
    let number = std::env::var("PORTOLAN_HOSTILE_SERVICES");
    number.map_or(HOSTILE_SERVICES, |text| {
        text.parse().expect("PORTOLAN_HOSTILE_SERVICES is a number")
    })
}

/// Merges a patch into an object.
async fn merge(client: &Client, path: &str, patch: Value) {
    let format = "application/merge-patch+json";
    let changed = client
        .request(http::Method::PATCH, path, format, Some(&patch))
        .await;
    changed.unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Creates objects with hostile texts in all places that accept any text: annotations, messages of conditions, reasons,
/// addresses and Events.
async fn create_hostile_objects(client: &Client) {
    let all = ATTACKS.join(" ");
    let annotations = json!({"note": all, "portolan.dev/load-balancer-scope": ATTACKS[0],
        "service.beta.kubernetes.io/aws-load-balancer-scheme": ATTACKS[1], "long": ATTACKS[0].repeat(1_000)});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "hostile", "annotations": annotations}});
    create(client, "/api/v1/namespaces", namespace).await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-h", "annotations": annotations}});
    create(client, "/api/v1/nodes", node).await;
    let time = "2026-01-01T00:00:00Z";
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "Hostile", "message": all,
            "lastTransitionTime": time})
    };
    let status = json!({"status": {"conditions": [condition("Ready", "False"), condition("NetworkUnavailable", "True")],
        "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": ATTACKS[0]}]}});
    merge(client, "/api/v1/nodes/node-h/status", status).await;
    let services = "/api/v1/namespaces/hostile/services";
    let service = |name: &str, spec: Value| {
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "annotations": annotations}, "spec": spec})
    };
    let ports = json!([{"name": "http", "port": 80}]);
    create(
        client,
        services,
        service("annotated", json!({"type": "LoadBalancer", "ports": ports})),
    )
    .await;
    create(
        client,
        services,
        service("pending", json!({"type": "LoadBalancer", "ports": ports})),
    )
    .await;
    let status = json!({"status": {"conditions": [condition("portolan.dev/AddressAssigned", "False")]}});
    merge(client, &format!("{services}/pending/status"), status).await;
    create(
        client,
        services,
        service("backed", json!({"selector": {"app": "web"}, "ports": ports})),
    )
    .await;
    create_account(client, "hostile").await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-1", "labels": {"app": "web"}, "annotations": annotations},
        "spec": {"nodeName": "node-h", "containers": [{"name": "main", "image": "none", "env": [{"name": "X", "value": all}]}]}});
    create(client, "/api/v1/namespaces/hostile/pods", pod).await;
    let status = json!({"status": {"phase": "Pending", "reason": ATTACKS[0], "message": all,
        "conditions": [condition("Ready", "False")],
        "containerStatuses": [{"name": "main", "image": ATTACKS[0], "imageID": "", "ready": false, "restartCount": 9,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": all}}}]}});
    merge(client, "/api/v1/namespaces/hostile/pods/web-1/status", status).await;
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "event-1"}, "message": all,
        "reason": ATTACKS[0], "type": "Warning", "source": {"component": ATTACKS[0]},
        "involvedObject": {"kind": "Service", "namespace": "hostile", "name": "pending"}});
    create(client, "/api/v1/namespaces/hostile/events", event).await;
}

fn changing_service(number: usize) -> String {
    format!("changing-{number}")
}

/// Creates the Services that change, and an EndpointSlice of each.
async fn create_changing_services(client: &Client, number: usize) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "changing"}});
    create(client, "/api/v1/namespaces", namespace).await;
    let creating = (0..number).map(|number| async move {
        let name = changing_service(number);
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"ports": [{"name": "http", "port": 80}]}});
        create(client, "/api/v1/namespaces/changing/services", service).await;
        let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": [{"addresses": ["10.244.1.2"], "conditions": {"ready": true}}]});
        create(client, "/apis/discovery.k8s.io/v1/namespaces/changing/endpointslices", slice).await;
    });
    stream::iter(creating)
        .buffer_unordered(WRITERS)
        .collect::<()>()
        .await;
}

/// Changes the readiness of an endpoint of each Service.
async fn change_services(client: &Client, number: usize, round: usize) {
    let changing = (0..number).map(|number| async move {
        let name = changing_service(number);
        let path = format!("/apis/discovery.k8s.io/v1/namespaces/changing/endpointslices/{name}");
        let endpoint = json!({"addresses": ["10.244.1.2"], "conditions": {"ready": round.is_multiple_of(2)}});
        merge(client, &path, json!({"endpoints": [endpoint]})).await;
    });
    stream::iter(changing)
        .buffer_unordered(WRITERS)
        .collect::<()>()
        .await;
}

#[test]
fn page_injects_nothing_and_stays_bounded_with_hostile_objects() {
    if !has_browser("page_injects_nothing_and_stays_bounded_with_hostile_objects") {
        return;
    }
    let number = hostile_services();
    let api = Api::start();
    let config = Config::from_kubeconfig(&api.kubeconfig()).expect("a kubeconfig");
    let client = Client::new(config).expect("a client");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(create_hostile_objects(&client));
    runtime.block_on(create_changing_services(&client, number));
    let (chart, url) = start_chart(&api);
    let mut browser = start_browser(&url, "test/hostile");
    let mut round = 0;
    let status = loop {
        if let Some(status) = browser.try_wait().expect("the state of Node.js") {
            break status;
        }
        round += 1;
        runtime.block_on(change_services(&client, number, round));
    };
    assert!(
        status.success(),
        "the tests in crates/chart/page/test/hostile passed"
    );
    let most = CHART_KIB + CHART_KIB_OF_SERVICE * u64::try_from(number).expect("a number");
    let peak = chart.peak_kib();
    println!("memory of the chart with {number} Services: {peak} of at most {most} KiB");
    assert!(peak < most, "{peak} of at most {most} KiB");
}
