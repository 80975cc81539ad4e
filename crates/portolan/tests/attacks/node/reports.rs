//! Reports of nodes: reading those of others, and false data in a node's own.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use client::ClientError;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::Method;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use super::{Cluster, NODES, expect_refusal, merge, named, post};
use crate::access;
use crate::test_cluster::TestCluster;

/// Writes the response of a node that sends false data.
type LyingResponse = fn(&mut dyn Write) -> std::io::Result<()>;

const OBSERVATION: &str = "/api/v1/nodes/one/observation";

#[tokio::test(flavor = "multi_thread")]
async fn components_of_nodes_cannot_read_reports() {
    let cluster = Cluster::start().await;
    post(&cluster.administrator, NODES, &named("Node", "two"))
        .await
        .expect("a Node");
    let user = |name: &str, group: &str| access::with_certificate(&cluster.api, name, group);
    let attackers = [
        access::node(&cluster.api, "one"),
        user("system:kube-proxy:one", "system:portolan:proxies"),
        user("system:kube-dns:one", "system:portolan:dns"),
        user("system:portolan-announcer:one", "system:portolan:announcers"),
        user("system:portolan-edge:one", "system:portolan:edges"),
        user("system:serviceaccount:default:default", "system:serviceaccounts"),
    ];
    for attacker in attackers {
        for node in ["one", "two"] {
            for report in ["observation", "flows"] {
                let path = format!("/api/v1/nodes/{node}/{report}?probe=true");
                expect_refusal(attacker.get(&path).await, "forbidden");
            }
        }
    }
}

/// Serves TLS as the agent of Node `one`. `respond` writes responses until the client disconnects.
fn serve_as_agent(pki: &Path, respond: LyingResponse) -> u16 {
    let address = Ipv4Addr::LOCALHOST;
    let issued = apiserver::pki::node_serving(pki, "one", &[address.into()]).expect("a certificate");
    let chain = CertificateDer::pem_slice_iter(issued.pair.certificate.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>().expect("a chain");
    let key = PrivateKeyDer::from_pem_slice(issued.pair.key.as_bytes()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a certificate");
    let config = Arc::new(config);
    let listener = TcpListener::bind((address, 0)).expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    let answer = move |stream: TcpStream| -> std::io::Result<()> {
        let session = ServerConnection::new(Arc::clone(&config)).map_err(std::io::Error::other)?;
        let mut stream = StreamOwned::new(session, stream);
        let mut head = [0; 4_096];
        let read = stream.read(&mut head)?;
        assert!(read > 0, "a request");
        respond(&mut stream)
    };
    std::thread::spawn(move || {
        // The server disconnects in the middle of a false response, which is an error here.
        listener
            .incoming()
            .flatten()
            .for_each(|stream| answer(stream).unwrap_or_default());
    });
    port
}

fn endless(stream: &mut dyn Write) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[")?;
    loop {
        stream.write_all(&[b' '; 65_536])?;
    }
}

fn terminal_codes(stream: &mut dyn Write) -> std::io::Result<()> {
    let body = "{\"metadata\": {\"name\": \"one\"}, \"hostname\": \"\u{9b}2J\"}";
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn error_with_terminal_codes(stream: &mut dyn Write) -> std::io::Result<()> {
    let body = "\u{1b}[2Jno observation";
    write!(
        stream,
        "HTTP/1.1 500 Error\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn page(stream: &mut dyn Write) -> std::io::Result<()> {
    let body = "<script>alert(1)</script>";
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn redirect(stream: &mut dyn Write) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")
}

/// Sends nothing, so that requests wait.
fn no_response(_: &mut dyn Write) -> std::io::Result<()> {
    loop {
        std::thread::park();
    }
}

/// Starts a cluster in which the agent of Node `one` sends false data.
async fn cluster_with(lie: LyingResponse) -> Cluster {
    let cluster = Cluster::start().await;
    let port = serve_as_agent(&cluster.api.directory.path().join("data/pki"), lie);
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}});
    merge(&cluster.node, "/api/v1/nodes/one/status", &status)
        .await
        .expect("the status of the node");
    cluster
}

/// Returns the response of the API server if the agent of Node `one` sends false data.
async fn response_to(lie: LyingResponse) -> (u16, String) {
    let cluster = cluster_with(lie).await;
    let response: Result<Value, ClientError> = cluster.administrator.get(OBSERVATION).await;
    let Err(ClientError::Status { status, .. }) = response else {
        panic!("{response:?}");
    };
    assert!(cluster.api.peak_kib() < 512 << 10, "memory of the server");
    (status.code, status.message)
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_responses_of_a_node_end_in_an_error() {
    let lies: [(LyingResponse, &str); 5] = [
        (endless, "is not complete: length limit exceeded"),
        (terminal_codes, "has control characters"),
        (error_with_terminal_codes, "\\u{1b}[2Jno observation"),
        (page, "is not JSON"),
        (redirect, "answered 302"),
    ];
    for (lie, expected) in lies {
        let (code, message) = response_to(lie).await;
        assert_eq!(code, 502, "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

/// A node that sends nothing makes each request wait.
#[tokio::test(flavor = "multi_thread")]
async fn one_user_does_not_hold_the_reports_of_all() {
    const REQUESTS: usize = 20;
    const SHARE: usize = 16;
    let cluster = cluster_with(no_response).await;
    cluster.create(NODES, &named("Node", "two")).await;
    let rules = json!([{"apiGroups": [""], "resources": ["nodes/observation"], "verbs": ["get"]}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "reports"}, "rules": rules});
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    cluster.create(&format!("{rbac}/clusterroles"), &role).await;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "reports"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reports"},
        "subjects": [{"kind": "Group", "name": "readers", "apiGroup": "rbac.authorization.k8s.io"}]});
    cluster
        .create(&format!("{rbac}/clusterrolebindings"), &binding)
        .await;
    let code_of = |response: Result<Value, ClientError>| response.expect_err("no report").code();
    let mallory = access::with_certificate(&cluster.api, "mallory", "readers");
    let mut waiting: FuturesUnordered<_> = (0..REQUESTS).map(|_| mallory.get::<Value>(OBSERVATION)).collect();
    for _ in SHARE..REQUESTS {
        let response = waiting.next().await.expect("a response");
        assert_eq!(code_of(response), Some(429));
    }
    assert_eq!(waiting.len(), SHARE);
    // Node two has no agent. The requests of others get so far.
    let path = "/api/v1/nodes/two/observation";
    let ann = access::with_certificate(&cluster.api, "ann", "readers");
    for other in [&ann, &cluster.administrator] {
        assert_eq!(code_of(other.get(path).await), Some(503));
    }
    assert_eq!(code_of(mallory.get(path).await), Some(429));
}

/// A user whose role names one Node reads the report of that Node only. This also holds if the Node has the address
/// of another one.
#[test]
fn node_cannot_give_its_readers_the_report_of_another_node() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(1);
        cluster.up("node-1", &[]);
        cluster.wait_for_node("node-1", "node-1", "True");
        let real = cluster.get("node-1", "/api/v1/nodes/node-1/observation");
        assert_eq!(real["metadata"]["name"], "node-1");
        cluster.request("node-1", Method::POST, NODES, Some(&named("Node", "mallory")));
        let node = cluster.get("node-1", "/api/v1/nodes/node-1");
        let status = json!({"status": {"addresses": node["status"]["addresses"],
            "daemonEndpoints": node["status"]["daemonEndpoints"]}});
        cluster.request(
            "node-1",
            Method::PATCH,
            "/api/v1/nodes/mallory/status",
            Some(&status),
        );
        let error = cluster
            .try_request("node-1", Method::GET, "/api/v1/nodes/mallory/observation", None)
            .expect_err("an error")
            .to_string();
        assert!(error.contains("this is the agent of another node"), "{error}");
    });
}
