//! TLS termination, and TLS towards backends.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use edge::proxy_protocol::{Header, ParseResult, read};
use edge::settings::{Alpn, BackendProtocol, Certificate, Frontend, ProxyVersion, Tls, TlsPolicy};
use edge::{Fault, PortKey, Transport};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};

use crate::fixture::{
    Fixture, TIMEOUT, backend, exchange, greeting, is_closed, name, named, runtime, service, wait_until,
};

type TlsClient = StreamOwned<ClientConnection, TcpStream>;

fn certificate(names: &[&str]) -> Arc<Certificate> {
    let key = KeyPair::generate().expect("a key");
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let signed = CertificateParams::new(names)
        .expect("names")
        .self_signed(&key)
        .expect("a signed certificate");
    Arc::new(Certificate::new(
        "shop/tls".into(),
        signed.pem().into_bytes(),
        key.serialize_pem().into_bytes(),
    ))
}

fn tls(certificates: &[&Arc<Certificate>]) -> Tls {
    Tls::new(
        certificates
            .iter()
            .map(|certificate| (*certificate).clone())
            .collect(),
    )
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Returns a client configuration that trusts one certificate only.
fn trusting(
    certificate: &Certificate,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let der = CertificateDer::from_pem_slice(&certificate.chain_pem).expect("a certificate");
    roots.add(der).expect("a root");
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder.with_protocol_versions(versions).expect("versions");
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

fn any_trusting(certificate: &Certificate) -> Arc<ClientConfig> {
    trusting(certificate, rustls::ALL_VERSIONS)
}

/// Returns a connection after its handshake.
fn connect(fixture: &Fixture, config: &Arc<ClientConfig>, server: &str) -> io::Result<TlsClient> {
    let server = ServerName::try_from(server.to_owned()).map_err(io::Error::other)?;
    let connection = ClientConnection::new(config.clone(), server).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, fixture.connect());
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(stream)
}

fn named_protocols(protocols: &[&str]) -> Vec<Vec<u8>> {
    protocols
        .iter()
        .map(|protocol| protocol.as_bytes().to_vec())
        .collect()
}

/// All data until the end. An error if the connection ends without `close_notify`.
fn rest(client: &mut TlsClient) -> io::Result<Vec<u8>> {
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).map(|_| rest)
}

fn key() -> PortKey {
    PortKey {
        service: name(),
        port: 0,
        transport: Transport::Tcp,
    }
}

#[test]
fn terminates_tls_for_backends_without_tls() {
    let certificate = certificate(&["shop.test"]);
    let fixture = Fixture::new(service(Frontend::Ssl(tls(&[&certificate])), &[named("a")]));
    let mut client = connect(&fixture, &any_trusting(&certificate), "shop.test").expect("a handshake");
    assert_eq!(greeting(&mut client).expect("a greeting"), "a");
    assert_eq!(exchange(&mut client, "hello").expect("an echo"), "hello");
    let long = vec![b'x'; 100_000];
    client.write_all(&long).expect("the data is written");
    let mut received = vec![0; long.len()];
    client.read_exact(&mut received).expect("received data");
    assert!(received == long);
    client.conn.send_close_notify();
    client.flush().expect("the end of the connection");
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).expect("a closing alert");
    assert_eq!(fixture.metric("portolan_edge_tls_handshakes_total", ""), Some(1));
}

#[test]
fn selects_certificates_by_name() {
    let (first, wild) = (certificate(&["shop.test"]), certificate(&["*.wild.test"]));
    let fixture = Fixture::new(service(Frontend::Ssl(tls(&[&first, &wild])), &[named("a")]));
    assert!(connect(&fixture, &any_trusting(&first), "shop.test").is_ok());
    assert!(connect(&fixture, &any_trusting(&wild), "any.wild.test").is_ok());
    assert!(connect(&fixture, &any_trusting(&wild), "deep.any.wild.test").is_err());
}

#[test]
fn uses_new_certificates_at_once_and_invalid_ones_never() {
    let (old, new) = (certificate(&["shop.test"]), certificate(&["shop.test"]));
    let mut fixture = Fixture::new(service(Frontend::Ssl(tls(&[&old])), &[named("a")]));
    let mut early = connect(&fixture, &any_trusting(&old), "shop.test").expect("a handshake");
    greeting(&mut early).expect("a greeting");
    fixture.service.listeners[0].frontend = Frontend::Ssl(tls(&[&new]));
    fixture.apply();
    connect(&fixture, &any_trusting(&new), "shop.test").expect("a handshake");
    assert_eq!(exchange(&mut early, "still here").expect("an echo"), "still here");
    let invalid = Arc::new(Certificate::new(
        new.source.clone(),
        new.chain_pem.clone(),
        old.key_pem.clone(),
    ));
    fixture.service.listeners[0].frontend = Frontend::Ssl(tls(&[&invalid]));
    fixture.apply();
    connect(&fixture, &any_trusting(&new), "shop.test").expect("a handshake with the former certificate");
    let port = fixture.address().port();
    let faults = fixture.edge.faults().borrow().clone();
    let observed = faults.get(&PortKey { port, ..key() }).expect("a notification");
    assert!(
        matches!(&observed[..], [Fault::InvalidCertificate { source_name, .. }] if &**source_name == "shop/tls")
    );
    fixture.service.listeners[0].frontend = Frontend::Ssl(tls(&[&old]));
    fixture.apply();
    assert!(fixture.edge.faults().borrow().is_empty());
}

#[test]
fn tls_policies_limit_versions() {
    let certificate = certificate(&["shop.test"]);
    let mut settings = tls(&[&certificate]);
    settings.policy = TlsPolicy::Tls13;
    let mut fixture = Fixture::new(service(Frontend::Ssl(settings.clone()), &[named("a")]));
    let (old, new) = (
        trusting(&certificate, &[&rustls::version::TLS12]),
        trusting(&certificate, &[&rustls::version::TLS13]),
    );
    assert!(connect(&fixture, &old, "shop.test").is_err());
    assert!(connect(&fixture, &new, "shop.test").is_ok());
    settings.policy = TlsPolicy::Tls12;
    fixture.service.listeners[0].frontend = Frontend::Ssl(settings);
    fixture.apply();
    assert!(connect(&fixture, &old, "shop.test").is_ok());
    assert!(connect(&fixture, &new, "shop.test").is_err());
    wait_until("both handshakes are counted", || {
        fixture.metric("portolan_edge_refused_total", "handshake") == Some(2)
    });
}

#[test]
fn resumes_sessions_after_a_certificate_change() {
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let certificate = certificate(&["shop.test"]);
        let other = self::certificate(&["other.test"]);
        let mut fixture = Fixture::new(service(Frontend::Ssl(tls(&[&certificate])), &[named("a")]));
        let config = trusting(&certificate, &[version]);
        let kind = |fixture: &Fixture| {
            let mut client = connect(fixture, &config, "shop.test").expect("a handshake");
            // Tickets of TLS 1.3 come with the first data.
            greeting(&mut client).expect("a greeting");
            client.conn.handshake_kind()
        };
        assert_eq!(kind(&fixture), Some(HandshakeKind::Full));
        assert_eq!(kind(&fixture), Some(HandshakeKind::Resumed));
        fixture.service.listeners[0].frontend = Frontend::Ssl(tls(&[&certificate, &other]));
        fixture.apply();
        assert_eq!(kind(&fixture), Some(HandshakeKind::Resumed));
        assert_eq!(fixture.metric("portolan_edge_tls_resumptions_total", ""), Some(2));
    }
}

#[test]
fn closes_connections_without_a_handshake() {
    let certificate = certificate(&["shop.test"]);
    let fixture = Fixture::new(service(Frontend::Ssl(tls(&[&certificate])), &[named("a")]));
    let junk: [&[u8]; 3] = [
        b"GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        &[0x16, 0x03, 0x01, 0xff, 0xff, 0x00],
        &[0; 4_096],
    ];
    for words in junk {
        let mut client = fixture.connect();
        client.write_all(words).expect("the data is written");
        // The connection may be closed by now.
        drop(client.shutdown(std::net::Shutdown::Write));
        let mut response = Vec::new();
        // An alert may come, and no data of the backend.
        drop(client.read_to_end(&mut response));
        assert!(!response.starts_with(b"a\n"), "{}", response.escape_ascii());
    }
    wait_until("all are counted", || {
        fixture.metric("portolan_edge_refused_total", "handshake") == Some(3)
    });
}

#[test]
fn missing_certificate_is_a_fault_and_fails_handshakes() {
    let fixture = Fixture::new(service(Frontend::Ssl(tls(&[])), &[named("a")]));
    let mut client = fixture.connect();
    assert!(is_closed(&mut client));
    let port = fixture.address().port();
    let faults = fixture.edge.faults().borrow().clone();
    assert_eq!(
        faults.get(&PortKey { port, ..key() }),
        Some(&vec![Fault::NoCertificate])
    );
}

/// Returns a backend with TLS and its own certificate that sends its name and echoes.
fn tls_backend(name: &'static str) -> SocketAddr {
    tls_backend_of(&[], move |stream| {
        stream.write_all(format!("{name}\n").as_bytes())?;
        let mut words = [0; 1_024];
        loop {
            let count = stream.read(&mut words)?;
            if count == 0 {
                stream.conn.send_close_notify();
                return stream.flush();
            }
            stream.write_all(&words[..count])?;
        }
    })
}

/// Returns a backend with TLS, its own certificate and these protocols for ALPN.
fn tls_backend_of(
    protocols: &[&str],
    serve: impl Fn(&mut StreamOwned<ServerConnection, TcpStream>) -> io::Result<()> + Send + Sync + 'static,
) -> SocketAddr {
    let certificate = certificate(&["nobody.verifies.this"]);
    let chain = vec![CertificateDer::from_pem_slice(&certificate.chain_pem).expect("a certificate")];
    let key = PrivateKeyDer::from_pem_slice(&certificate.key_pem).expect("a key");
    let builder = ServerConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a configuration");
    config.alpn_protocols = named_protocols(protocols);
    let config = Arc::new(config);
    backend(move |stream| {
        let connection = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
        serve(&mut StreamOwned::new(connection, stream))
    })
}

#[test]
fn connects_to_backends_with_tls() {
    let certificate = certificate(&["shop.test"]);
    let mut settings = service(Frontend::Tcp, &[tls_backend("a")]);
    settings.listeners[0].backend_protocol = BackendProtocol::Ssl;
    let mut fixture = Fixture::new(settings);
    let mut client = fixture.connect();
    assert_eq!(greeting(&mut client).expect("a greeting"), "a");
    assert_eq!(exchange(&mut client, "hello").expect("an echo"), "hello");
    fixture.service.listeners[0].frontend = Frontend::Ssl(tls(&[&certificate]));
    fixture.apply();
    let mut client = connect(&fixture, &any_trusting(&certificate), "shop.test").expect("a handshake");
    assert_eq!(greeting(&mut client).expect("a greeting"), "a");
    assert_eq!(exchange(&mut client, "hello").expect("an echo"), "hello");
}

#[test]
fn skips_backends_without_tls() {
    let mut settings = service(Frontend::Tcp, &[named("plain"), tls_backend("tls")]);
    settings.listeners[0].backend_protocol = BackendProtocol::Ssl;
    let fixture = Fixture::new(settings);
    for _ in 0..4 {
        assert_eq!(fixture.chosen_backend().expect("a backend"), "tls");
    }
}

#[test]
fn backends_get_the_result_of_the_handshake() {
    let repeater = backend(|mut stream| {
        let mut all = Vec::new();
        let mut words = [0; 1_024];
        while !all.ends_with(b"end") {
            let count = stream.read(&mut words)?;
            all.extend_from_slice(&words[..count]);
        }
        stream.write_all(&all)
    });
    let certificate = certificate(&["shop.test"]);
    let mut settings = service(Frontend::Ssl(tls(&[&certificate])), &[repeater]);
    settings.policy.proxy_protocol_to_backends = Some(ProxyVersion::V2);
    let fixture = Fixture::new(settings);
    let mut client = connect(&fixture, &any_trusting(&certificate), "shop.test").expect("a handshake");
    client.write_all(b"end").expect("the data is written");
    let mut all = Vec::new();
    client.read_to_end(&mut all).expect("data until the end");
    let Ok(ParseResult::Complete {
        header: Header::For(_),
        bytes,
    }) = read(&all)
    else {
        panic!("{}", all.escape_ascii());
    };
    assert_eq!(&all[bytes..], b"end");
    let header = String::from_utf8_lossy(&all[..bytes]).into_owned();
    assert!(
        header.contains("shop.test") && header.contains("TLSv1.3"),
        "{header:?}"
    );
}

#[test]
fn idle_timeout_sends_close_notify() {
    let certificate = certificate(&["shop.test"]);
    let mut settings = service(Frontend::Ssl(tls(&[&certificate])), &[named("a")]);
    settings.policy.idle_timeout = Duration::from_millis(100);
    let fixture = Fixture::new(settings);
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let config = trusting(&certificate, &[version]);
        let mut client = connect(&fixture, &config, "shop.test").expect("a handshake");
        assert_eq!(rest(&mut client).expect("an orderly end"), b"a\n");
    }
}

#[test]
fn drain_time_sends_close_notify() {
    let certificate = certificate(&["shop.test"]);
    let mut settings = service(Frontend::Ssl(tls(&[&certificate])), &[named("a")]);
    settings.policy.draining = Some(Duration::from_millis(50));
    let mut fixture = Fixture::new(settings);
    let mut client = connect(&fixture, &any_trusting(&certificate), "shop.test").expect("a handshake");
    greeting(&mut client).expect("a greeting");
    fixture.set_backends(&[]);
    assert_eq!(rest(&mut client).expect("an orderly end"), b"");
    // Without a backend, connections end with `close_notify` as well.
    let mut client = connect(&fixture, &any_trusting(&certificate), "shop.test").expect("a handshake");
    assert_eq!(rest(&mut client).expect("an orderly end"), b"");
}

#[test]
fn shutdown_sends_close_notify_without_waiting() {
    let talker = backend(|mut stream| {
        loop {
            stream.write_all(&[7; 64 << 10])?;
        }
    });
    let certificate = certificate(&["shop.test"]);
    let mut settings = service(Frontend::Ssl(tls(&[&certificate])), &[named("a")]);
    let mut other = settings.listeners[0].clone();
    other.port = crate::fixture::free_port(false);
    other.backends = vec![edge::settings::Backend::ready(talker)];
    settings.listeners.push(other);
    let mut fixture = Fixture::new(settings);
    let mut client = connect(&fixture, &any_trusting(&certificate), "shop.test").expect("a handshake");
    greeting(&mut client).expect("a greeting");
    // A backend that reads nothing leaves no space for an alert.
    fixture.service.listeners.swap(0, 1);
    let deaf = connect(&fixture, &any_trusting(&certificate), "shop.test").expect("a handshake");
    runtime().block_on(fixture.edge.drain(Duration::from_millis(100)));
    assert_eq!(rest(&mut client).expect("an orderly end"), b"");
    drop(deaf);
}

#[test]
fn reset_sends_no_close_notify() {
    let breaking = backend(|mut stream| {
        stream.write_all(b"a\n")?;
        stream.read_exact(&mut [0])?;
        let observed = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        observed.map(|()| drop(stream))
    });
    let certificate = certificate(&["shop.test"]);
    let fixture = Fixture::new(service(Frontend::Ssl(tls(&[&certificate])), &[breaking]));
    let mut client = connect(&fixture, &any_trusting(&certificate), "shop.test").expect("a handshake");
    greeting(&mut client).expect("a greeting");
    client.write_all(b"x").expect("the data is written");
    client.flush().expect("the data is written");
    assert!(rest(&mut client).is_err());
}

#[test]
fn backends_get_close_notify() {
    let (sender, observed) = std::sync::mpsc::channel();
    let backend = tls_backend_of(&[], move |stream| {
        stream.write_all(b"a\n")?;
        sender
            .send(stream.read_to_end(&mut Vec::new()).is_ok())
            .map_err(io::Error::other)
    });
    let mut settings = service(Frontend::Tcp, &[backend]);
    settings.listeners[0].backend_protocol = BackendProtocol::Ssl;
    settings.policy.idle_timeout = Duration::from_millis(100);
    let fixture = Fixture::new(settings);
    let mut client = fixture.connect();
    greeting(&mut client).expect("a greeting");
    assert_eq!(observed.recv_timeout(TIMEOUT), Ok(true));
}

#[test]
fn alpn_policies_select_protocols() {
    let certificate = certificate(&["shop.test"]);
    let mut fixture = Fixture::new(service(Frontend::Ssl(tls(&[&certificate])), &[named("a")]));
    let mut agreed = |alpn, offered: &[&str]| {
        let mut settings = tls(&[&certificate]);
        settings.alpn = alpn;
        fixture.service.listeners[0].frontend = Frontend::Ssl(settings);
        fixture.apply();
        let mut config = ClientConfig::clone(&any_trusting(&certificate));
        config.alpn_protocols = named_protocols(offered);
        let mut client = connect(&fixture, &Arc::new(config), "shop.test").expect("a handshake");
        assert_eq!(greeting(&mut client).expect("a greeting"), "a");
        let protocol = client.conn.alpn_protocol();
        protocol.map(|protocol| String::from_utf8_lossy(protocol).into_owned())
    };
    const ALL: &[&str] = &["http/1.0", "h2", "http/1.1"];
    let protocol = |name: &str| Some(name.to_owned());
    assert_eq!(agreed(Alpn::Http1Only, ALL), protocol("http/1.1"));
    assert_eq!(agreed(Alpn::Http1Only, &["http/1.0"]), protocol("http/1.0"));
    assert_eq!(agreed(Alpn::Http2Only, ALL), protocol("h2"));
    assert_eq!(agreed(Alpn::Http2Optional, ALL), protocol("http/1.1"));
    assert_eq!(agreed(Alpn::Http2Optional, &["h2"]), protocol("h2"));
    assert_eq!(agreed(Alpn::Http2Preferred, ALL), protocol("h2"));
    // A client without a common protocol continues without ALPN.
    assert_eq!(agreed(Alpn::Http2Only, &["http/1.1"]), None);
    assert_eq!(agreed(Alpn::Http1Only, &["h2"]), None);
    assert_eq!(agreed(Alpn::Http2Preferred, &["acme-tls/1"]), None);
    for alpn in [
        Alpn::Http1Only,
        Alpn::Http2Only,
        Alpn::Http2Optional,
        Alpn::Http2Preferred,
    ] {
        assert_eq!(agreed(alpn, &[]), None);
    }
    assert_eq!(agreed(Alpn::Never, ALL), None);
    assert_eq!(agreed(Alpn::Automatic, ALL), None);
}

#[test]
fn backends_are_offered_the_protocol_of_the_client() {
    let repeater = tls_backend_of(&["http/1.1", "h2"], |stream| {
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        let protocol = stream.conn.alpn_protocol().unwrap_or(b"none").to_vec();
        stream.write_all(&[&protocol, &b"\n"[..]].concat())?;
        stream.read_exact(&mut [0])
    });
    let certificate = certificate(&["shop.test"]);
    let mut ending = tls(&[&certificate]);
    ending.alpn = Alpn::Http2Preferred;
    let mut settings = service(Frontend::Ssl(ending), &[repeater]);
    settings.listeners[0].backend_protocol = BackendProtocol::Ssl;
    let fixture = Fixture::new(settings);
    for (offered, expected) in [(&["h2"][..], "h2"), (&["http/1.1"], "http/1.1"), (&[], "none")] {
        let mut config = ClientConfig::clone(&any_trusting(&certificate));
        config.alpn_protocols = named_protocols(offered);
        let mut client = connect(&fixture, &Arc::new(config), "shop.test").expect("a handshake");
        assert_eq!(greeting(&mut client).expect("a protocol"), expected);
    }
}
