//! Impersonation of the API server with the serving certificate of an agent.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::test_cluster::TestCluster;

const SERVER: &str = "node-1";
const AGENT_PORT: u16 = 10_250;

/// Clients of the API trust the cluster CA, which must not sign serving certificates of agents.
#[test]
fn cluster_ca_does_not_sign_serving_certificates_of_agents() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(1);
        cluster.up(SERVER, &[]);
        cluster.wait_for_node(SERVER, SERVER, "True");
        let authority = cluster.data_dir(SERVER).join("pki/ca.crt");
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(authority).expect("the CA certificate") {
            roots
                .add(certificate.expect("a certificate"))
                .expect("a root certificate");
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("TLS versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config = Arc::new(config);
        let handshake = |address: SocketAddr| {
            let name = ServerName::from(address.ip());
            let mut session = ClientConnection::new(config.clone(), name).expect("a TLS session");
            let mut socket = std::net::TcpStream::connect(address).ok()?;
            let timeout = Some(std::time::Duration::from_secs(10));
            socket.set_read_timeout(timeout).expect("a read timeout");
            while session.is_handshaking() {
                if let Err(error) = session.complete_io(&mut socket) {
                    return Some(Err(error.to_string()));
                }
            }
            Some(Ok(()))
        };
        let node = cluster.network().member(SERVER).expect("a node");
        let address = |port| SocketAddr::new(cluster.address(SERVER), port);
        let handshake_with = |port| node.enter(|| handshake(address(port))).expect("a namespace");
        assert_eq!(
            handshake_with(6_443),
            Some(Ok(())),
            "handshake with the API server"
        );
        let result = cluster.wait_until("the agent", |_| handshake_with(AGENT_PORT));
        let error = result.expect_err("an agent that clients accept as the API server");
        assert!(
            error.contains("invalid peer certificate: UnknownIssuer"),
            "{error}"
        );
    });
}
