//! Traffic of two nodes, which `portolan top` reads through the API server.

use std::net::{IpAddr, SocketAddr, TcpStream};

use http::Method;
use serde_json::{Value, json};
use testbed::in_namespace;

use crate::test_cluster::{TestCluster, echo_container};

/// Node with API server, and its number of connections.
const SERVER: (&str, usize) = ("node-1", 3);
/// Node that has joined, with the endpoint of the Service, and its number of connections.
const OTHER: (&str, usize) = ("node-2", 2);

/// Starts two nodes, and a Service with an endpoint on the second one. Returns its cluster IP.
fn start() -> (TestCluster, SocketAddr) {
    let mut cluster = TestCluster::new(2);
    cluster.up(SERVER.0, &[]);
    let server = format!("--server={}", cluster.server(SERVER.0));
    let token = format!("--token={}", cluster.token(SERVER.0, &[]));
    cluster.join(OTHER.0, &[&server, &token]);
    for (node, _) in [SERVER, OTHER] {
        cluster.wait_for_node(SERVER.0, node, "True");
    }
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}});
    let path = "/api/v1/namespaces/default/services";
    let created = cluster.request(SERVER.0, Method::POST, path, Some(&service));
    let ip: IpAddr = created["spec"]["clusterIP"]
        .as_str()
        .and_then(|ip| ip.parse().ok())
        .expect("a cluster IP");
    cluster.run_pod(SERVER.0, OTHER.0, "web", echo_container());
    cluster.wait_for_pod(SERVER.0, "web", "Running");
    for (node, _) in [SERVER, OTHER] {
        wait_for_report(&cluster, node);
    }
    (cluster, SocketAddr::new(ip, 80))
}

/// Waits for the serving certificate of an agent, before which its node has no report.
fn wait_for_report(cluster: &TestCluster, node: &str) {
    let path = format!("/api/v1/nodes/{node}/flows?intervalMilliseconds=100");
    cluster.wait_until("a report of the node", |_| {
        match cluster.try_request(SERVER.0, Method::GET, &path, None) {
            Ok(_) => Some(()),
            Err(error) => {
                let message = error.to_string();
                assert!(message.contains("has no serving certificate yet"), "{message}");
                None
            }
        }
    });
}

/// Opens connections on a node.
fn connect(cluster: &TestCluster, (node, number): (&str, usize), service: SocketAddr) -> Vec<TcpStream> {
    let member = cluster.network().member(node).expect("a node");
    cluster.wait_until("the rules of the node", |_| {
        let connected = member.enter(|| TcpStream::connect(service).ok());
        connected.expect("a namespace")
    });
    let open = || {
        let connections = (0..number).map(|_| TcpStream::connect(service).expect("an endpoint"));
        connections.collect()
    };
    member.enter(open).expect("a namespace")
}

fn top(cluster: &TestCluster, arguments: &[&str]) -> (String, String) {
    let kubeconfig = format!(
        "--kubeconfig={}",
        cluster.data_dir(SERVER.0).join("admin.conf").display()
    );
    let output = cluster.run(SERVER.0, &[arguments, &[kubeconfig.as_str()]].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {stdout}{stderr}");
    (stdout, stderr)
}

fn service_named<'v>(traffic: &'v Value, name: &str) -> &'v Value {
    let mut services = traffic["services"].as_array().expect("a list").iter();
    let found = services.find(|service| service["name"] == name);
    found.expect("a Service with traffic")
}

#[test]
fn all_nodes_are_counted() {
    in_namespace(|| {
        let (mut cluster, service) = start();
        let held = [SERVER, OTHER].map(|node| connect(&cluster, node, service));
        let (stdout, stderr) = top(&cluster, &["top", "services", "-o", "json"]);
        let found: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
        let nodes = found["nodes"].as_array().expect("nodes").iter();
        let nodes: Vec<(&Value, &Value)> = nodes.map(|node| (&node["name"], &node["mode"])).collect();
        let [nftables, server, other] = ["nftables", SERVER.0, OTHER.0].map(Value::from);
        assert_eq!(nodes, [(&server, &nftables), (&other, &nftables)], "{found:#}");
        let web = service_named(&found, "web");
        assert_eq!(web["connections"], SERVER.1 + OTHER.1, "{found:#}");
        assert_eq!(web["endpoints"][0]["peer"]["name"], "default/web", "{web:#}");
        assert_eq!(web["endpoints"][0]["peer"]["node"], OTHER.0, "{web:#}");
        for (node, number) in [SERVER, OTHER] {
            let mut clients = web["clients"].as_array().expect("clients").iter();
            let of_node = clients.find(|client| client["node"] == node).expect("a client");
            assert_eq!(of_node["kind"], "node", "{web:#}");
            assert_eq!(of_node["connections"], number, "{web:#}");
        }
        let from = format!("--from=node/{}", SERVER.0);
        let (stdout, _) = top(
            &cluster,
            &["flows", "service", "default/web", &from, "-o", "json"],
        );
        let flows: Value = serde_json::from_str(&stdout).expect("JSON");
        let open = flows["flows"].as_array().expect("flows").iter();
        assert_eq!(
            open.filter(|flow| flow["state"] == "ESTABLISHED").count(),
            SERVER.1,
            "{flows:#}"
        );
        cluster.stop(OTHER.0);
        let (stdout, stderr) = top(&cluster, &["top", "services", "-o", "json"]);
        let found: Value = serde_json::from_str(&stdout).expect("JSON");
        assert_eq!(service_named(&found, "web")["connections"], SERVER.1, "{found:#}");
        assert!(
            stderr.contains(&format!("no report of node {}: ", OTHER.0)),
            "{stderr}"
        );
        drop(held);
    });
}
