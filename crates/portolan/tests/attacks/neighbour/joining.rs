//! A host on the path between a joining host and the API server, which answers in place of the server.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::test_cluster::TestCluster;

const NODE: &str = "node-1";

/// Heads of requests.
type Requests = Arc<Mutex<Vec<String>>>;

/// Returns a join token with the hash of a certificate's key.
fn join_token(certificate: &[u8]) -> String {
    let (_, parsed) = X509Certificate::from_der(certificate).expect("a certificate");
    let digest = Sha256::digest(parsed.public_key().raw);
    let digits: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("abcdef.0123456789abcdef.sha256:{}", digits.concat())
}

/// Returns a response with `cluster-info`, which names a server and its CA certificates.
fn cluster_info(server: &str, authorities: &str) -> String {
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": [{"name": "", "cluster": {
            "server": server, "certificate-authority-data": STANDARD.encode(authorities),
        }}],
    });
    let settings = json!({
        "clusterCidrs": ["10.245.0.0/16"], "clusterDns": ["10.96.0.10"], "clusterDomain": "cluster.local",
        "network": "host-gw", "nodeLeaseDurationSeconds": 40,
    });
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "cluster-info", "namespace": "kube-public"},
        "data": {"kubeconfig": kubeconfig.to_string(), "portolan": settings.to_string()},
    })
    .to_string();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends the response to each request, and records the requests.
fn serve(listener: TcpListener, config: ServerConfig, response: String, requests: Requests) {
    let config = Arc::new(config);
    let answer = move |stream: TcpStream| -> std::io::Result<()> {
        let session = ServerConnection::new(Arc::clone(&config)).map_err(std::io::Error::other)?;
        let mut stream = StreamOwned::new(session, stream);
        let mut head = [0; 8_192];
        let read = stream.read(&mut head)?;
        if read > 0 {
            let head = String::from_utf8_lossy(&head[..read]).into_owned();
            requests.lock().expect("the requests").push(head);
            stream.write_all(response.as_bytes())?;
            stream.conn.send_close_notify();
        }
        stream.flush()
    };
    std::thread::spawn(move || {
        // A client that does not trust the certificate disconnects, which is an error here.
        listener
            .incoming()
            .flatten()
            .for_each(|stream| answer(stream).unwrap_or_default());
    });
}

#[test]
fn authority_that_a_neighbour_adds_receives_no_join_token() {
    testbed::in_namespace(|| {
        let cluster = TestCluster::new(1);
        let address = cluster.address(NODE);
        let host = cluster.network().member(NODE).expect("a node");
        let listener = host.enter(|| TcpListener::bind((address, 0)));
        let listener = listener.expect("a namespace").expect("a port");
        let server = format!("https://{}", listener.local_addr().expect("an address"));
        let genuine = rcgen::generate_simple_self_signed(vec!["genuine".to_owned()]).expect("a certificate");
        let forged = rcgen::generate_simple_self_signed(vec![address.to_string()]).expect("a certificate");
        let key = PrivateKeyDer::try_from(forged.signing_key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("TLS versions")
            .with_no_client_auth()
            .with_single_cert(vec![forged.cert.der().clone()], key)
            .expect("a certificate");
        // The first certificate has the hash of the token.
        let authorities = format!("{}{}", genuine.cert.pem(), forged.cert.pem());
        let requests = Requests::default();
        serve(
            listener,
            config,
            cluster_info(&server, &authorities),
            Arc::clone(&requests),
        );
        let token = join_token(genuine.cert.der());
        let arguments = cluster.join_flags(NODE, &["--server", &server, "--token", &token]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let errors = cluster.expect_failure(NODE, &arguments);
        let requests = requests.lock().expect("the requests");
        assert!(!requests.is_empty(), "the host does not connect: {errors}");
        for request in requests.iter() {
            assert!(
                !request.to_ascii_lowercase().contains("authorization:"),
                "the neighbour receives the token: {request}"
            );
        }
        assert!(errors.contains("not verified"), "{errors}");
    });
}
