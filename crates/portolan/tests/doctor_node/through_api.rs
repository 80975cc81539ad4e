//! Observations of nodes that the doctor reads through the API server.

use std::path::{Path, PathBuf};
use std::process::Output;

use client::{Client, ClientError, Config};
use http::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use testbed::{in_namespace, write_sysctl};

use crate::test_cluster::{TestCluster, echo_container};
use crate::world::kubeconfig_of;

/// Node with API server.
const SERVER: &str = "node-1";
/// Node that has joined, with the endpoint of the Service.
const OTHER: &str = "node-2";
const SERVICE: &str = "default/web";
const AGENT_PORT: u16 = 10_250;

/// Starts two nodes, a Service with an endpoint on the second one, and a client Pod on the first one.
fn start() -> TestCluster {
    let mut cluster = TestCluster::new(2);
    cluster.up(SERVER, &[]);
    let server = format!("--server={}", cluster.server(SERVER));
    let token = format!("--token={}", cluster.token(SERVER, &[]));
    cluster.join(OTHER, &[&server, &token]);
    for node in [SERVER, OTHER] {
        cluster.wait_for_node(SERVER, node, "True");
    }
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}});
    cluster.request(
        SERVER,
        Method::POST,
        "/api/v1/namespaces/default/services",
        Some(&service),
    );
    cluster.run_pod(SERVER, OTHER, "web", echo_container());
    cluster.run_pod(SERVER, SERVER, "cart", echo_container());
    cluster.wait_for_pod(SERVER, "web", "Running");
    cluster.wait_for_pod(SERVER, "cart", "Running");
    cluster.wait_for("an endpoint of the Service", || {
        let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dweb";
        let slices = cluster.try_request(SERVER, Method::GET, path, None)?;
        let ready = &slices["items"][0]["endpoints"][0]["conditions"]["ready"];
        Ok(*ready == true)
    });
    // An agent serves once its certificate is issued.
    for node in [SERVER, OTHER] {
        cluster.wait_for("a report of the node", || {
            let path = format!("/api/v1/nodes/{node}/observation");
            cluster.try_request(SERVER, Method::GET, &path, None)?;
            Ok(true)
        });
    }
    cluster
}

fn doctor(cluster: &TestCluster, kubeconfig: &Path, arguments: &[&str]) -> Output {
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    cluster.run(
        SERVER,
        &[&["doctor", "service", SERVICE, &kubeconfig], arguments].concat(),
    )
}

/// Findings as code and object, and the warnings.
fn findings(cluster: &TestCluster, arguments: &[&str]) -> (Vec<String>, String) {
    let kubeconfig = cluster.data_dir(SERVER).join("admin.conf");
    let output = doctor(cluster, &kubeconfig, &[&["-o", "json"], arguments].concat());
    let warnings = String::from_utf8_lossy(&output.stderr).into_owned();
    let found: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {warnings}"));
    let list = found["findings"].as_array().expect("a list").iter();
    let text = |finding: &Value| {
        let field = |value: &Value| value.as_str().expect("a text").to_owned();
        format!(
            "{} {}",
            field(&finding["code"]),
            field(&finding["object"]["name"])
        )
    };
    (list.map(text).collect(), warnings)
}

/// Writes a kubeconfig for a user who may read all objects, and no reports of nodes.
fn viewer(cluster: &TestCluster) -> PathBuf {
    let data = cluster.data_dir(SERVER);
    let issued = apiserver::pki::client(&data.join("pki"), "client-viewer", "viewer", "viewers");
    let issued = issued.expect("a certificate");
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "everything-but-reports"},
        "rules": [{"apiGroups": ["*"], "resources": ["services", "endpointslices", "pods", "nodes", "endpoints",
            "namespaces", "events", "deployments", "replicasets"], "verbs": ["get", "list"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "everything-but-reports"}, "subjects": [{"kind": "User", "name": "viewer"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "everything-but-reports"}});
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    cluster.request(SERVER, Method::POST, &format!("{rbac}/clusterroles"), Some(&role));
    cluster.request(
        SERVER,
        Method::POST,
        &format!("{rbac}/clusterrolebindings"),
        Some(&binding),
    );
    let config = kubeconfig_of(&cluster.server(SERVER), &issued);
    let path = data.join("viewer.conf");
    std::fs::write(&path, config.to_string()).expect("a kubeconfig");
    path
}

/// Sends a request to the agent of the first node, with a client certificate in a file, or without one.
fn ask_agent(cluster: &TestCluster, certificate: Option<&Path>) -> Result<Value, ClientError> {
    let pem = certificate.map(|path| std::fs::read(path).expect("a certificate"));
    let config = Config {
        server: format!("https://{}:{AGENT_PORT}", cluster.address(SERVER)),
        insecure_skip_tls_verify: true,
        client_certificate: pem.map(|pem| (pem.clone(), pem)),
        ..Config::default()
    };
    let observe = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let client = Client::new(config).expect("a client");
            client.get("/nodeReports/node-1/observation").await
        })
    };
    let node = cluster.network().member(OTHER).expect("a node");
    node.enter(observe).expect("a namespace")
}

fn check_observation(cluster: &TestCluster) {
    let path = format!("/api/v1/nodes/{OTHER}/observation");
    let silent = cluster.get(SERVER, &path);
    assert_eq!(silent["kind"], "NodeObservation");
    assert_eq!(silent["metadata"]["name"], OTHER);
    assert_eq!(silent["proxies"][0]["nodeName"], OTHER, "{silent:#}");
    assert!(silent["probes"].is_null(), "no probe is sent without a request");
    let probed = cluster.get(SERVER, &format!("{path}?service={SERVICE}&probe=true"));
    let probes = probed["probes"].as_array().expect("probes");
    assert!(!probes.is_empty());
    for probe in probes {
        assert_eq!(probe["outcome"], "answered", "{probe:#}");
    }
    let error = |path: &str| {
        let response = cluster.try_request(SERVER, Method::GET, path, None);
        let error = response.expect_err(path);
        (error.code().expect("a response"), error.to_string())
    };
    let (code, message) = error(&format!("{path}?service=web"));
    assert_eq!(code, 400, "{message}");
    let (code, message) = error("/api/v1/nodes/absent/observation");
    assert_eq!(code, 404, "{message}");
    let (code, message) = error(&format!("/api/v1/nodes/{OTHER}/observations"));
    assert_eq!(code, 404, "{message}");
}

fn check_refusals(cluster: &TestCluster) {
    let without = ask_agent(cluster, None).expect_err("a refusal");
    assert_eq!(without.code(), None, "no request passes the handshake: {without}");
    let joined = cluster.data_dir(OTHER).join("node/agent.pem");
    let of_other_node = ask_agent(cluster, Some(&joined)).expect_err("a refusal");
    assert_eq!(of_other_node.code(), Some(403), "{of_other_node}");
    let viewer = viewer(cluster);
    let output = doctor(cluster, &viewer, &[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = "Not allowed to read, so nothing is reported that depends on them:";
    let line = text.lines().find(|line| line.starts_with(expected));
    assert!(
        line.is_some_and(|line| line.contains("NodeObservation")),
        "{text}"
    );
}

/// The agent of a node accepts the request, and never responds.
fn check_stalled_node(cluster: &TestCluster) {
    let nodes = format!("--nodes={SERVER},{OTHER}");
    cluster.signal(OTHER, Signal::STOP);
    let (found, warnings) = findings(cluster, &[&nodes, "--timeout=2s"]);
    cluster.signal(OTHER, Signal::CONT);
    assert_eq!(found, Vec::<String>::new(), "{warnings}");
    let expected = format!("node {OTHER} is not observed: no response within ");
    assert!(warnings.contains(&expected), "{warnings}");
}

#[test]
fn faults_of_nodes_are_found_through_the_api() {
    in_namespace(|| {
        let cluster = start();
        check_observation(&cluster);
        let (healthy, warnings) = findings(&cluster, &[]);
        assert_eq!(healthy, Vec::<String>::new(), "{warnings}");
        let (from_pod, warnings) = findings(&cluster, &["--from", "pod/default/cart"]);
        assert_eq!(from_pod, Vec::<String>::new(), "{warnings}");
        let other = cluster.network().member(OTHER).expect("a node");
        let forwarding = |value: &str| {
            other
                .enter(|| write_sysctl("net.ipv4.ip_forward", value))
                .expect("a namespace")
                .expect("a sysctl");
        };
        forwarding("0");
        let (found, warnings) = findings(&cluster, &[]);
        assert_eq!(
            found.first().map(String::as_str),
            Some("PTL-0043 node-2"),
            "{warnings}"
        );
        let (found, warnings) = findings(&cluster, &["--nodes=none"]);
        assert_eq!(found, Vec::<String>::new(), "{warnings}");
        forwarding("1");
        check_stalled_node(&cluster);
        check_refusals(&cluster);
    });
}
