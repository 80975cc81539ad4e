//! The web page of `portolan chart` in a browser, with the real server and an API server.

mod support;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use client::{Client, Config, JSON};
use serde_json::{Value, json};
use support::{Api, Component};

/// Interval in which Services are created while the browser runs.
const CREATE_INTERVAL: Duration = Duration::from_secs(1);
/// Version that the tests of the page need.
const NODE_MAJOR_MIN: u32 = 20;
/// Programs as which Chromium is installed.
const CHROMIUM: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

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

/// Creates an object, also one whose namespace is new.
async fn create(client: &Client, collection: &str, object: Value) {
    let created = client
        .request(http::Method::POST, collection, JSON, Some(&object))
        .await;
    created.unwrap_or_else(|error| panic!("{collection}: {error}"));
}

/// Creates two namespaces, two nodes, a Service with two endpoints, and a Service whose selector matches no Pod while a
/// Pod has nearly the same labels.
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
    // A Pod needs the ServiceAccount of its namespace, which the server creates, too.
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let accounts = "/api/v1/namespaces/shop/serviceaccounts";
    let created = client
        .request(http::Method::POST, accounts, JSON, Some(&account))
        .await;
    if let Err(error) = created {
        assert!(error.to_string().contains("AlreadyExists"), "{error}");
    }
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

fn start_browser(url: &str) -> Child {
    Command::new("node")
        .args(["scripts/run.mjs", "test/real"])
        .current_dir(page())
        .env("PORTOLAN_CHART_URL", url)
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
    let mut browser = start_browser(&url);
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
