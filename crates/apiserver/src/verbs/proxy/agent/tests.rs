use std::net::SocketAddr;

use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

/// Agent whose serving certificate is not signed yet.
#[derive(Debug)]
struct WithoutCertificate;

impl ResolvesServerCert for WithoutCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}

/// Starts an agent without a certificate, for one connection.
async fn start_without_certificate() -> SocketAddr {
    let tls = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(WithoutCertificate));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a connection");
        let accepted = TlsAcceptor::from(Arc::new(tls)).accept(stream).await;
        accepted.map(drop).expect_err("no handshake");
    });
    address
}

fn client(directory: &std::path::Path) -> AgentClient {
    let pki = pki::Pki::open(directory, &["127.0.0.1".to_owned()]).expect("authorities");
    let identity = pki::client(directory, "kubelet-client", "apiserver", "").expect("a certificate");
    AgentClient::new(&identity, &pki.kubelet_serving_authority).expect("a client")
}

#[tokio::test]
async fn agent_without_certificate_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let agents = client(directory.path());
    let failure = async |address: SocketAddr| {
        let request = Request::get(format!("https://{address}/")).body(Empty::new());
        let sent = agents.client.request(request.expect("a request")).await;
        unreachable(sent.expect_err("no response"), "node-a")
    };
    let refused = failure(start_without_certificate().await).await;
    assert_eq!(refused.code(), http::StatusCode::SERVICE_UNAVAILABLE);
    let expected = "the agent of node \"node-a\" has no serving certificate yet, try again";
    assert!(refused.message().starts_with(expected), "{}", refused.message());

    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = closed.local_addr().expect("an address");
    drop(closed);
    let absent = failure(address).await;
    assert!(
        absent.message().contains("Connection refused"),
        "{}",
        absent.message()
    );
}

#[test]
fn agent_address_is_the_internal_ip_of_its_node() {
    let node = |port: i64, ip: &str| {
        json!({"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
                          "addresses": [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": ip}]}})
    };
    assert_eq!(
        agent_of(&node(10250, "fd00::1"), "n"),
        Ok("[fd00::1]:10250".to_owned())
    );
    assert!(agent_of(&node(0, "10.0.0.1"), "n").is_err());
    assert!(agent_of(&node(10250, "nonsense"), "n").is_err());
}

#[test]
fn control_characters_of_errors_are_escaped() {
    assert_eq!(
        escape_control_characters("no \u{1b}[2Jlog\u{9b}1m"),
        "no \\u{1b}[2Jlog\\u{9b}1m"
    );
}
