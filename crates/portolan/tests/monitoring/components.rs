//! Components as a cluster runs them, with enough traffic that each metric of the dashboards has a series.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, Config};
use http::Method;
use serde_json::{Value, json};
use testbed::{Backend, exchange_udp};

use super::pages::Page;
use super::test_cluster::TestCluster;

/// Member with the API server, controllers and DNS.
const SERVER: &str = "control-plane";
/// Node with the proxy in nftables mode, and the balancer.
const NODE: &str = "node-1";
/// Node with the proxy in iptables mode, and the resolver of the DNS server.
const OTHER_NODE: &str = "node-2";
const WEB: &str = "172.30.0.200";
const SECURE: &str = "172.30.0.201";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const DNS_TIMEOUT: Duration = Duration::from_secs(2);

/// Starts all components and returns their pages by name: `proxy`, `proxy-iptables`, `dns`, `controllers`, `balancer` and
/// `apiserver`.
pub(crate) fn pages() -> BTreeMap<&'static str, Page> {
    let mut cluster = TestCluster::new(2);
    start_server(&mut cluster);
    create_nodes(&cluster);
    start_nodes(&mut cluster);
    let backend = Backend::start(cluster.network().member(SERVER).expect("a member")).expect("a backend");
    create_services(&cluster, backend.address);
    send_dns_queries(&cluster);
    send_requests(&cluster);
    let page = |node: &str, port: u16, expected: &[&str]| {
        let text = cluster.wait_until(&format!("{expected:?} on port {port}"), |cluster| {
            let response = cluster.page(node, ([127, 0, 0, 1], port).into(), "/metrics")?;
            let (_, text) = response.split_once("\r\n\r\n")?;
            let is_complete = expected.iter().all(|expected| text.contains(expected));
            is_complete.then(|| text.to_owned())
        });
        Page::parse(&text)
    };
    BTreeMap::from([
        (
            "proxy",
            page(
                NODE,
                10_249,
                &["kubeproxy_sync_proxy_rules_duration_seconds_count"],
            ),
        ),
        (
            "proxy-iptables",
            page(
                OTHER_NODE,
                10_249,
                &["kubeproxy_sync_proxy_rules_iptables_total{"],
            ),
        ),
        ("dns", page(SERVER, 9_153, &["coredns_forward_responses_total{"])),
        (
            "controllers",
            page(
                SERVER,
                10_267,
                &["services_count_by_traffic_distribution{traffic_distribution=\"PreferClose\"} 1"],
            ),
        ),
        (
            "balancer",
            page(
                NODE,
                10_268,
                &[
                    "metallb_speaker_announced{ip=\"172.30.0.200\"",
                    "portolan_edge_certificate_expiration_timestamp_seconds{",
                    "portolan_edge_access_log_dropped_lines_total{",
                    "portolan_address_pool_addresses_assigned{",
                ],
            ),
        ),
        ("apiserver", api_page(&cluster)),
    ])
}

fn start_server(cluster: &mut TestCluster) {
    let directory = cluster.data_dir(SERVER);
    let address = SocketAddr::new(cluster.address(SERVER), 6_443);
    cluster.start_as(
        "apiserver",
        SERVER,
        &[
            "apiserver",
            &format!("--listen={address}"),
            &format!("--data-dir={}", directory.display()),
        ],
    );
    cluster.wait_for("the API server", || {
        cluster
            .try_request(SERVER, Method::GET, "/api/v1/namespaces/default", None)
            .map(|_| true)
    });
    let kubeconfig = kubeconfig(cluster);
    cluster.start_as("controllers", SERVER, &["controllers", &kubeconfig]);
    // The resolver of the DNS server is another one, with its own zone.
    let resolver = SocketAddr::new(cluster.address(OTHER_NODE), 53);
    let listen = SocketAddr::new(cluster.address(SERVER), 53);
    cluster.start_as(
        "dns",
        SERVER,
        &[
            "dns",
            &kubeconfig,
            &format!("--listen={listen}"),
            &format!("--forward={resolver}"),
        ],
    );
    cluster.start_as(
        "resolver",
        OTHER_NODE,
        &[
            "dns",
            &kubeconfig,
            &format!("--listen={resolver}"),
            "--cluster-domain=example.org",
            "--forward=",
        ],
    );
}

fn kubeconfig(cluster: &TestCluster) -> String {
    format!(
        "--kubeconfig={}",
        cluster.data_dir(SERVER).join("admin.conf").display()
    )
}

fn create_nodes(cluster: &TestCluster) {
    for node in [NODE, OTHER_NODE] {
        let address = cluster.address(node).to_string();
        let mut object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}});
        cluster.request(SERVER, Method::POST, "/api/v1/nodes", Some(&object));
        object["status"] = json!({
            "addresses": [{"type": "InternalIP", "address": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
        });
        let path = format!("/api/v1/nodes/{node}/status");
        cluster.request(SERVER, Method::PATCH, &path, Some(&object));
    }
}

fn start_nodes(cluster: &mut TestCluster) {
    let kubeconfig = kubeconfig(cluster);
    for (node, mode) in [(NODE, "nftables"), (OTHER_NODE, "iptables")] {
        cluster.start_as(
            &format!("proxy-{node}"),
            node,
            &[
                "proxy",
                &kubeconfig,
                &format!("--hostname-override={node}"),
                &format!("--proxy-mode={mode}"),
            ],
        );
    }
    let logs = cluster.data_dir(NODE).join("access-logs");
    cluster.start_as(
        "balancer",
        NODE,
        &[
            "balancer",
            &kubeconfig,
            &format!("--node-name={NODE}"),
            "--announce",
            "--interfaces=eth0",
            "--edge",
            &format!("--edge-access-log-directory={}", logs.display()),
            "--edge-access-log-min-free=0",
        ],
    );
}

/// Creates a Service that the edge serves over HTTP, and one with a certificate.
fn create_services(cluster: &TestCluster, backend: IpAddr) {
    let pool = json!({
        "apiVersion": "portolan.dev/v1alpha1", "kind": "AddressPool", "metadata": {"name": "default"},
        "spec": {"addresses": [format!("{WEB}-{SECURE}")]},
    });
    let pools = "/apis/portolan.dev/v1alpha1/addresspools";
    cluster.request(SERVER, Method::POST, pools, Some(&pool));
    let pair = rcgen::generate_simple_self_signed(vec!["www.example.com".to_owned()]).expect("a certificate");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secure"}, "type": "kubernetes.io/tls",
        "data": {
            "tls.crt": STANDARD.encode(pair.cert.pem()),
            "tls.key": STANDARD.encode(pair.signing_key.serialize_pem()),
        },
    });
    let secrets = "/api/v1/namespaces/default/secrets";
    cluster.request(SERVER, Method::POST, secrets, Some(&secret));
    let web = json!({
        "portolan.dev/load-balancer-ips": WEB,
        "portolan.dev/edge-protocol": "http",
        "portolan.dev/edge-access-log": "true",
    });
    create_service(cluster, "web", 80, web, backend);
    let secure = json!({
        "portolan.dev/load-balancer-ips": SECURE,
        "portolan.dev/edge-certificates": "secure",
        "portolan.dev/edge-tls-ports": "443",
    });
    create_service(cluster, "secure", 443, secure, backend);
    // The controllers write slices of Services with a selector only.
    let selected = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "selected"},
        "spec": {"selector": {"app": "none"}, "trafficDistribution": "PreferClose", "ports": [{"port": 80}]},
    });
    cluster.request(SERVER, Method::POST, SERVICES, Some(&selected));
}

fn create_service(cluster: &TestCluster, name: &str, port: u16, annotations: Value, backend: IpAddr) {
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "endpoints": [{"addresses": [backend.to_string()]}],
        "ports": [{"name": "web", "protocol": "TCP", "port": Backend::HEALTH_PORT}],
    });
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    cluster.request(SERVER, Method::POST, slices, Some(&slice));
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "type": "LoadBalancer", "loadBalancerClass": "portolan.dev/edge",
            "ports": [{"name": "web", "port": port, "targetPort": Backend::HEALTH_PORT}],
        },
    });
    cluster.request(SERVER, Method::POST, SERVICES, Some(&service));
}

/// Queries a name of the cluster, and one of the resolver until it answers.
fn send_dns_queries(cluster: &TestCluster) {
    for name in [
        "kubernetes.default.svc.cluster.local",
        "kubernetes.default.svc.example.org",
    ] {
        cluster.wait_until(name, |cluster| {
            let response = query(cluster, name)?;
            // No error, and one answer.
            (response.get(3)? & 15 == 0 && response.get(7) == Some(&1)).then_some(())
        });
    }
    // The answer is in the cache now.
    assert!(query(cluster, "kubernetes.default.svc.example.org").is_some());
}

/// Sends a query of type A from outside and returns the response.
fn query(cluster: &TestCluster, name: &str) -> Option<Vec<u8>> {
    let mut message = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).expect("a short label"));
        message.extend_from_slice(label.as_bytes());
    }
    message.extend_from_slice(&[0, 0, 1, 0, 1]);
    let outside = cluster.network().outside().expect("the outside");
    let to = SocketAddr::new(cluster.address(SERVER), 53);
    exchange_udp(outside, to, &message, DNS_TIMEOUT).ok()
}

/// Sends HTTP requests through the edge until one has succeeded, and waits for the second Service.
fn send_requests(cluster: &TestCluster) {
    let outside = cluster.network().outside().expect("the outside");
    let connect = |address: &str, port: u16| {
        let to = SocketAddr::new(address.parse().expect("an address"), port);
        let connected = outside.enter(|| TcpStream::connect_timeout(&to, DNS_TIMEOUT));
        connected.expect("a namespace").ok()
    };
    cluster.wait_until("a response through the edge", |_| {
        let mut stream = connect(WEB, 80)?;
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")
            .ok()?;
        let mut response = String::new();
        stream.read_to_string(&mut response).ok()?;
        response.starts_with("HTTP/1.1 200").then_some(())
    });
    cluster.wait_until("a port with a certificate", |_| connect(SECURE, 443));
}

/// Returns the page of the API server, which needs credentials.
fn api_page(cluster: &TestCluster) -> Page {
    let path = cluster.data_dir(SERVER).join("admin.conf");
    let member = cluster.network().member(SERVER).expect("a member");
    let text = member.enter(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let client =
                Client::new(Config::from_kubeconfig(&path).expect("a kubeconfig")).expect("a client");
            let body = client
                .send(Method::GET, "/metrics", client::JSON, Default::default())
                .await;
            String::from_utf8(body.expect("a response").to_vec()).expect("text")
        })
    });
    Page::parse(&text.expect("a namespace"))
}
