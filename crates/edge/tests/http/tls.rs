//! HTTP with TLS, towards clients and backends.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use edge::settings::{Alpn, BackendProtocol, Certificate, Frontend, Tls};
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::backend::{Backend, OK};
use crate::served::{Served, service};

pub(crate) type Identity = rcgen::CertifiedKey<rcgen::KeyPair>;

pub(crate) fn identity() -> Identity {
    rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap()
}

/// Request as a backend sees it.
type ReceivedRequest = (Version, String, String);

pub(crate) fn server(identity: &Identity, protocols: &[&str]) -> ServerConfig {
    let key = PrivateKeyDer::try_from(identity.signing_key.serialize_der()).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![identity.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = protocols
        .iter()
        .map(|protocol| protocol.as_bytes().to_vec())
        .collect();
    config
}

/// Returns a backend with these protocols for ALPN, and its connections.
async fn backend(protocols: &[&str]) -> (SocketAddr, Arc<Mutex<Vec<ReceivedRequest>>>, Arc<Mutex<usize>>) {
    let identity = identity();
    let config = server(&identity, protocols);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, connections) = (
        Arc::<Mutex<Vec<ReceivedRequest>>>::default(),
        Arc::<Mutex<usize>>::default(),
    );
    let (all, counted) = (seen.clone(), connections.clone());
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        while let Ok((stream, _)) = listener.accept().await {
            *counted.lock().unwrap() += 1;
            let (acceptor, all) = (acceptor.clone(), all.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let service = service_fn(move |request: Request<Incoming>| {
                    let all = all.clone();
                    async move {
                        let proto = request.headers()["x-forwarded-proto"]
                            .to_str()
                            .unwrap()
                            .to_owned();
                        all.lock()
                            .unwrap()
                            .push((request.version(), request.uri().to_string(), proto));
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        Ok::<_, Infallible>(Response::new(Full::new(body)))
                    }
                });
                auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await
                    .unwrap_or_default();
            });
        }
    });
    (address, seen, connections)
}

/// Returns an edge with its own certificate.
fn secured(backend: SocketAddr, protocol: BackendProtocol) -> (Served, Identity) {
    secured_with(backend, protocol, Alpn::default())
}

fn secured_with(backend: SocketAddr, protocol: BackendProtocol, alpn: Alpn) -> (Served, Identity) {
    let identity = identity();
    let certificate = Certificate::new(
        "shop/a".into(),
        identity.cert.pem().into_bytes(),
        identity.signing_key.serialize_pem().into_bytes(),
    );
    let mut service = service(&[backend]);
    let mut tls = Tls::new(vec![Arc::new(certificate)]);
    tls.alpn = alpn;
    service.listeners[0].frontend = Frontend::Https(tls);
    service.listeners[0].backend_protocol = protocol;
    (Served::new(service), identity)
}

async fn connect(
    served: &Served,
    trusted: &CertificateDer<'static>,
    alpn: &str,
) -> TlsStream<tokio::net::TcpStream> {
    try_connect(served, trusted, alpn).await.unwrap()
}

/// Connects with these protocols for ALPN; without ALPN if there are no protocols.
async fn try_connect(
    served: &Served,
    trusted: &CertificateDer<'static>,
    alpn: &str,
) -> std::io::Result<TlsStream<tokio::net::TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let protocols = alpn.split(',').filter(|protocol| !protocol.is_empty());
    config.alpn_protocols = protocols.map(|protocol| protocol.as_bytes().to_vec()).collect();
    let stream = tokio::net::TcpStream::connect(served.address).await.unwrap();
    let name = ServerName::try_from("a.example").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

async fn post2(stream: TlsStream<tokio::net::TcpStream>, count: usize) {
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let io = TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
        .await
        .unwrap();
    tokio::spawn(connection);
    for _ in 0..count {
        let request = Request::post("https://a.example/b")
            .body(Full::new(Bytes::from("hello")))
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hello");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_is_forwarded_as_http2_if_backends_support_it() {
    let (backend, seen, connections) = backend(&["h2", "http/1.1"]).await;
    let (served, identity) = secured(backend, BackendProtocol::Https);
    post2(connect(&served, identity.cert.der(), "h2").await, 3).await;
    let expected = (
        Version::HTTP_2,
        "https://a.example/b".to_owned(),
        "https".to_owned(),
    );
    assert_eq!(*seen.lock().unwrap(), vec![expected; 3]);
    assert_eq!(*connections.lock().unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_is_forwarded_as_http11_otherwise() {
    let (backend, seen, connections) = backend(&["http/1.1"]).await;
    let (served, identity) = secured(backend, BackendProtocol::Https);
    post2(connect(&served, identity.cert.der(), "h2").await, 3).await;
    let expected = (Version::HTTP_11, "/b".to_owned(), "https".to_owned());
    assert_eq!(*seen.lock().unwrap(), vec![expected; 3]);
    assert_eq!(*connections.lock().unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn http11_is_forwarded_as_http2_if_backends_support_it() {
    let (backend, seen, _) = backend(&["h2", "http/1.1"]).await;
    let (served, identity) = secured(backend, BackendProtocol::Https);
    let stream = connect(&served, identity.cert.der(), "http/1.1").await;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let request = Request::post("/b")
        .header("host", "a.example")
        .body(Full::new(Bytes::from("hello")))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hello");
    let expected = (
        Version::HTTP_2,
        "https://a.example/b".to_owned(),
        "https".to_owned(),
    );
    assert_eq!(*seen.lock().unwrap(), [expected]);
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrades_use_http11_backends() {
    let identity_of_backend = identity();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let backend = listener.local_addr().unwrap();
    let config = server(&identity_of_backend, &["h2", "http/1.1"]);
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let response =
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        stream.write_all(response).await.unwrap();
        let (mut from, mut to) = tokio::io::split(stream);
        tokio::io::copy(&mut from, &mut to).await.unwrap();
        to.shutdown().await.unwrap();
    });
    let (served, identity) = secured(backend, BackendProtocol::Https);
    let mut client = connect(&served, identity.cert.der(), "http/1.1").await;
    let request =
        b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello";
    client.write_all(request).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    assert!(
        head.starts_with(b"HTTP/1.1 101 "),
        "{}",
        String::from_utf8_lossy(&head)
    );
    client.shutdown().await.unwrap();
    let mut rest = String::new();
    client.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_closed_by_the_edge_get_close_notify() {
    let silent = Backend::start(|connection| while connection.request().is_some() {});
    let (served, identity) = secured(silent.address, BackendProtocol::Http);
    let mut busy = connect(&served, identity.cert.der(), "http/1.1").await;
    let request = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
    busy.write_all(request).await.unwrap();
    while silent.recorded().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut idle = connect(&served, identity.cert.der(), "http/1.1").await;
    served.edge.drain(Duration::from_millis(100)).await;
    for client in [&mut idle, &mut busy] {
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.expect("an orderly end");
        assert_eq!(rest, b"");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_response_has_no_close_notify() {
    let breaking = Backend::start(|connection| {
        connection.request();
        connection.answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    });
    let (served, identity) = secured(breaking.address, BackendProtocol::Http);
    for (version, is_observed) in [("1.0", false), ("1.1", true)] {
        let mut client = connect(&served, identity.cert.der(), "http/1.1").await;
        let request = format!("GET / HTTP/{version}\r\nHost: a.example\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let ended = client.read_to_end(&mut rest).await;
        // Chunks show it themselves.
        assert_eq!(ended.is_ok(), is_observed, "{}", String::from_utf8_lossy(&rest));
        assert!(
            !rest.ends_with(b"0\r\n\r\n"),
            "{}",
            String::from_utf8_lossy(&rest)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn alpn_policies_select_the_http_version() {
    let backend = Backend::answering(OK);
    let cases = [
        (Alpn::Http1Only, "h2,http/1.1", Some("http/1.1")),
        (Alpn::Http2Optional, "h2,http/1.1", Some("http/1.1")),
        (Alpn::Http2Optional, "h2", Some("h2")),
        (Alpn::Http2Preferred, "http/1.1,h2", Some("h2")),
        (Alpn::Http1Only, "http/1.0", Some("http/1.0")),
        // A client without a common protocol continues without ALPN, with HTTP/1.1.
        (Alpn::Http2Only, "http/1.1", None),
        (Alpn::Http1Only, "h2", None),
        (Alpn::Http2Only, "", None),
        (Alpn::Http2Preferred, "acme-tls/1", None),
        (Alpn::Http2Preferred, "", None),
        (Alpn::Never, "h2,http/1.1", None),
        (Alpn::Automatic, "", None),
    ];
    for (alpn, offered, agreed) in cases {
        let (served, identity) = secured_with(backend.address, BackendProtocol::Http, alpn);
        let mut client = connect(&served, identity.cert.der(), offered).await;
        let protocol = client.get_ref().1.alpn_protocol();
        assert_eq!(protocol, agreed.map(str::as_bytes), "{alpn:?} {offered}");
        if agreed == Some("h2") {
            continue;
        }
        let request = b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
        client.write_all(request).await.unwrap();
        let mut response = String::new();
        client.read_to_string(&mut response).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    }
}

#[tokio::test]
async fn unknown_protocol_is_refused_without_a_policy() {
    let backend = Backend::answering(OK);
    let (served, identity) = secured(backend.address, BackendProtocol::Http);
    let refused = try_connect(&served, identity.cert.der(), "acme-tls/1").await;
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("NoApplicationProtocol"), "{error}");
}
