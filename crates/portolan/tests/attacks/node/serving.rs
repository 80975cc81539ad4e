//! The serving certificate of an agent, with which it could pass itself off as the API server.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::lab::Lab;

const SERVER: &str = "node-1";
const AGENT_PORT: u16 = 10_250;

/// Clients of the API trust the cluster's authority. What they trust must not sign for machines.
#[test]
fn no_client_of_the_api_trusts_the_certificate_of_an_agent() {
    testbed::in_namespace(|| {
        let mut lab = Lab::new(1);
        lab.up(SERVER, &[]);
        lab.await_node(SERVER, SERVER, "True");
        let authority = lab.data_dir(SERVER).join("pki/ca.crt");
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(authority).expect("the authority") {
            roots.add(certificate.expect("a certificate")).expect("a root");
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config = Arc::new(config);
        let shake = |address: SocketAddr| {
            let name = ServerName::from(address.ip());
            let mut session = ClientConnection::new(config.clone(), name).expect("a session");
            let mut socket = std::net::TcpStream::connect(address).ok()?;
            let patience = Some(std::time::Duration::from_secs(10));
            socket.set_read_timeout(patience).expect("a time limit");
            while session.is_handshaking() {
                if let Err(error) = session.complete_io(&mut socket) {
                    return Some(Err(error.to_string()));
                }
            }
            Some(Ok(()))
        };
        let machine = lab.cluster().member(SERVER).expect("a machine");
        let of = |port| SocketAddr::new(lab.address(SERVER), port);
        let reach = |port| machine.enter(|| shake(of(port))).expect("a namespace");
        assert_eq!(reach(6_443), Some(Ok(())), "the API server's own");
        let shaken = lab.until("the agent", |_| reach(AGENT_PORT));
        let error = shaken.expect_err("the agent passes for the API server");
        assert!(
            error.contains("invalid peer certificate: UnknownIssuer"),
            "{error}"
        );
    });
}
