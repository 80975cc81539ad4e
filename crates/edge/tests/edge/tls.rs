//! Listeners where TLS ends, and backends that speak it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use edge::proxy_protocol::{Header, Read as Parsed, read};
use edge::settings::{Alpn, BackendProtocol, Certificate, Frontend, ProxyVersion, Tls, TlsPolicy};
use edge::{Fault, PortKey, Transport};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};

use crate::setting::{
    PATIENCE, Setting, backend, exchange, greeting, is_closed, name, named, runtime, service, wait_until,
};

type TlsClient = StreamOwned<ClientConnection, TcpStream>;

fn certificate(names: &[&str]) -> Arc<Certificate> {
    let key = KeyPair::generate().expect("a key");
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let signed = CertificateParams::new(names)
        .expect("names")
        .self_signed(&key)
        .expect("signed");
    Arc::new(Certificate {
        source: "shop/tls".into(),
        chain_pem: signed.pem().into_bytes(),
        key_pem: key.serialize_pem().into_bytes(),
    })
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

/// A client that trusts one certificate alone.
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

/// A connection whose handshake is complete.
fn connect(setting: &Setting, config: &Arc<ClientConfig>, server: &str) -> io::Result<TlsClient> {
    let server = ServerName::try_from(server.to_owned()).map_err(io::Error::other)?;
    let connection = ClientConnection::new(config.clone(), server).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, setting.connect());
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

/// All that comes until the connection ends; an error if it breaks off, without an alert that ends it.
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
fn tls_ends_at_the_edge() {
    let certificate = certificate(&["shop.test"]);
    let setting = Setting::new(service(Frontend::Ssl(tls(&[&certificate])), &[named("a")]));
    let mut client = connect(&setting, &any_trusting(&certificate), "shop.test").expect("a handshake");
    assert_eq!(greeting(&mut client).expect("a greeting"), "a");
    assert_eq!(exchange(&mut client, "hello").expect("an echo"), "hello");
    let long = vec![b'x'; 100_000];
    client.write_all(&long).expect("written");
    let mut heard = vec![0; long.len()];
    client.read_exact(&mut heard).expect("read");
    assert!(heard == long);
    client.conn.send_close_notify();
    client.flush().expect("ended");
    let mut rest = Vec::new();
    client
        .read_to_end(&mut rest)
        .expect("it ends with an alert of its own");
    assert_eq!(setting.metric("portolan_edge_tls_handshakes_total", ""), Some(1));
}

#[test]
fn each_name_has_its_certificate() {
    let (first, wild) = (certificate(&["shop.test"]), certificate(&["*.wild.test"]));
    let setting = Setting::new(service(Frontend::Ssl(tls(&[&first, &wild])), &[named("a")]));
    assert!(connect(&setting, &any_trusting(&first), "shop.test").is_ok());
    assert!(connect(&setting, &any_trusting(&wild), "any.wild.test").is_ok());
    assert!(connect(&setting, &any_trusting(&wild), "deep.any.wild.test").is_err());
}

#[test]
fn a_new_certificate_is_used_at_once_and_a_bad_one_never() {
    let (old, new) = (certificate(&["shop.test"]), certificate(&["shop.test"]));
    let mut setting = Setting::new(service(Frontend::Ssl(tls(&[&old])), &[named("a")]));
    let mut early = connect(&setting, &any_trusting(&old), "shop.test").expect("a handshake");
    greeting(&mut early).expect("a greeting");
    setting.service.listeners[0].frontend = Frontend::Ssl(tls(&[&new]));
    setting.apply();
    connect(&setting, &any_trusting(&new), "shop.test").expect("a handshake");
    assert_eq!(exchange(&mut early, "still here").expect("an echo"), "still here");
    let bad = Arc::new(Certificate {
        source: new.source.clone(),
        chain_pem: new.chain_pem.clone(),
        key_pem: old.key_pem.clone(),
    });
    setting.service.listeners[0].frontend = Frontend::Ssl(tls(&[&bad]));
    setting.apply();
    connect(&setting, &any_trusting(&new), "shop.test").expect("a handshake with the former one");
    let port = setting.address().port();
    let faults = setting.edge.faults().borrow().clone();
    let told = faults.get(&PortKey { port, ..key() }).expect("it is told");
    assert!(matches!(&told[..], [Fault::BadCertificate { source_name, .. }] if &**source_name == "shop/tls"));
    setting.service.listeners[0].frontend = Frontend::Ssl(tls(&[&old]));
    setting.apply();
    assert!(setting.edge.faults().borrow().is_empty());
}

#[test]
fn policies_bound_the_versions() {
    let certificate = certificate(&["shop.test"]);
    let mut settings = tls(&[&certificate]);
    settings.policy = TlsPolicy::Tls13;
    let mut setting = Setting::new(service(Frontend::Ssl(settings.clone()), &[named("a")]));
    let (old, new) = (
        trusting(&certificate, &[&rustls::version::TLS12]),
        trusting(&certificate, &[&rustls::version::TLS13]),
    );
    assert!(connect(&setting, &old, "shop.test").is_err());
    assert!(connect(&setting, &new, "shop.test").is_ok());
    settings.policy = TlsPolicy::Tls12;
    setting.service.listeners[0].frontend = Frontend::Ssl(settings);
    setting.apply();
    assert!(connect(&setting, &old, "shop.test").is_ok());
    assert!(connect(&setting, &new, "shop.test").is_err());
    wait_until("both are counted", || {
        setting.metric("portolan_edge_refused_total", "handshake") == Some(2)
    });
}

#[test]
fn sessions_are_resumed_even_after_a_change() {
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let certificate = certificate(&["shop.test"]);
        let other = self::certificate(&["other.test"]);
        let mut setting = Setting::new(service(Frontend::Ssl(tls(&[&certificate])), &[named("a")]));
        let config = trusting(&certificate, &[version]);
        let kind = |setting: &Setting| {
            let mut client = connect(setting, &config, "shop.test").expect("a handshake");
            // Tickets of TLS 1.3 come with the first words.
            greeting(&mut client).expect("a greeting");
            client.conn.handshake_kind()
        };
        assert_eq!(kind(&setting), Some(HandshakeKind::Full));
        assert_eq!(kind(&setting), Some(HandshakeKind::Resumed));
        setting.service.listeners[0].frontend = Frontend::Ssl(tls(&[&certificate, &other]));
        setting.apply();
        assert_eq!(kind(&setting), Some(HandshakeKind::Resumed));
        assert_eq!(setting.metric("portolan_edge_tls_resumptions_total", ""), Some(2));
    }
}

#[test]
fn junk_in_the_place_of_a_handshake_is_closed() {
    let certificate = certificate(&["shop.test"]);
    let setting = Setting::new(service(Frontend::Ssl(tls(&[&certificate])), &[named("a")]));
    let junk: [&[u8]; 3] = [
        b"GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n",
        &[0x16, 0x03, 0x01, 0xff, 0xff, 0x00],
        &[0; 4_096],
    ];
    for words in junk {
        let mut client = setting.connect();
        client.write_all(words).expect("written");
        // It may be closed by now.
        drop(client.shutdown(std::net::Shutdown::Write));
        let mut answer = Vec::new();
        // An alert may come, and nothing of the backend.
        drop(client.read_to_end(&mut answer));
        assert!(!answer.starts_with(b"a\n"), "{}", answer.escape_ascii());
    }
    wait_until("all are counted", || {
        setting.metric("portolan_edge_refused_total", "handshake") == Some(3)
    });
}

#[test]
fn without_a_certificate_handshakes_fail_and_it_is_told() {
    let setting = Setting::new(service(Frontend::Ssl(tls(&[])), &[named("a")]));
    let mut client = setting.connect();
    assert!(is_closed(&mut client));
    let port = setting.address().port();
    let faults = setting.edge.faults().borrow().clone();
    assert_eq!(
        faults.get(&PortKey { port, ..key() }),
        Some(&vec![Fault::NoCertificate])
    );
}

/// A backend that speaks TLS with a certificate of its own, says its name and what it is told.
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

/// A backend that speaks TLS with a certificate of its own and agrees on these protocols.
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
fn backends_are_spoken_to_in_tls() {
    let certificate = certificate(&["shop.test"]);
    let mut settings = service(Frontend::Tcp, &[tls_backend("a")]);
    settings.listeners[0].backend_protocol = BackendProtocol::Ssl;
    let mut setting = Setting::new(settings);
    let mut client = setting.connect();
    assert_eq!(greeting(&mut client).expect("a greeting"), "a");
    assert_eq!(exchange(&mut client, "hello").expect("an echo"), "hello");
    setting.service.listeners[0].frontend = Frontend::Ssl(tls(&[&certificate]));
    setting.apply();
    let mut client = connect(&setting, &any_trusting(&certificate), "shop.test").expect("a handshake");
    assert_eq!(greeting(&mut client).expect("a greeting"), "a");
    assert_eq!(exchange(&mut client, "hello").expect("an echo"), "hello");
}

#[test]
fn a_backend_that_speaks_no_tls_is_passed_over() {
    let mut settings = service(Frontend::Tcp, &[named("plain"), tls_backend("tls")]);
    settings.listeners[0].backend_protocol = BackendProtocol::Ssl;
    let setting = Setting::new(settings);
    for _ in 0..4 {
        assert_eq!(setting.taker().expect("a backend"), "tls");
    }
}

#[test]
fn backends_are_told_what_the_handshake_agreed_on() {
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
    let setting = Setting::new(settings);
    let mut client = connect(&setting, &any_trusting(&certificate), "shop.test").expect("a handshake");
    client.write_all(b"end").expect("written");
    let mut all = Vec::new();
    client.read_to_end(&mut all).expect("read to the end");
    let Ok(Parsed::Complete {
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
fn silence_ends_with_an_alert() {
    let certificate = certificate(&["shop.test"]);
    let mut settings = service(Frontend::Ssl(tls(&[&certificate])), &[named("a")]);
    settings.policy.idle_timeout = Duration::from_millis(100);
    let setting = Setting::new(settings);
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let config = trusting(&certificate, &[version]);
        let mut client = connect(&setting, &config, "shop.test").expect("a handshake");
        assert_eq!(rest(&mut client).expect("an end in order"), b"a\n");
    }
}

#[test]
fn so_does_the_time_of_a_backend_that_left() {
    let certificate = certificate(&["shop.test"]);
    let mut settings = service(Frontend::Ssl(tls(&[&certificate])), &[named("a")]);
    settings.policy.draining = Some(Duration::from_millis(50));
    let mut setting = Setting::new(settings);
    let mut client = connect(&setting, &any_trusting(&certificate), "shop.test").expect("a handshake");
    greeting(&mut client).expect("a greeting");
    setting.set_backends(&[]);
    assert_eq!(rest(&mut client).expect("an end in order"), b"");
    // Without a backend, connections end in order as well.
    let mut client = connect(&setting, &any_trusting(&certificate), "shop.test").expect("a handshake");
    assert_eq!(rest(&mut client).expect("an end in order"), b"");
}

#[test]
fn so_does_the_edge_itself_and_waits_for_nobody() {
    let talker = backend(|mut stream| {
        loop {
            stream.write_all(&[7; 64 << 10])?;
        }
    });
    let certificate = certificate(&["shop.test"]);
    let mut settings = service(Frontend::Ssl(tls(&[&certificate])), &[named("a")]);
    let mut other = settings.listeners[0].clone();
    other.port = crate::setting::free_port(false);
    other.backends = vec![edge::settings::Backend::ready(talker)];
    settings.listeners.push(other);
    let mut setting = Setting::new(settings);
    let mut client = connect(&setting, &any_trusting(&certificate), "shop.test").expect("a handshake");
    greeting(&mut client).expect("a greeting");
    // One that reads nothing has no room for an alert.
    setting.service.listeners.swap(0, 1);
    let deaf = connect(&setting, &any_trusting(&certificate), "shop.test").expect("a handshake");
    runtime().block_on(setting.edge.drain(Duration::from_millis(100)));
    assert_eq!(rest(&mut client).expect("an end in order"), b"");
    drop(deaf);
}

#[test]
fn what_breaks_off_is_no_end() {
    let breaking = backend(|mut stream| {
        stream.write_all(b"a\n")?;
        stream.read_exact(&mut [0])?;
        let told = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        told.map(|()| drop(stream))
    });
    let certificate = certificate(&["shop.test"]);
    let setting = Setting::new(service(Frontend::Ssl(tls(&[&certificate])), &[breaking]));
    let mut client = connect(&setting, &any_trusting(&certificate), "shop.test").expect("a handshake");
    greeting(&mut client).expect("a greeting");
    client.write_all(b"x").expect("written");
    client.flush().expect("written");
    assert!(rest(&mut client).is_err());
}

#[test]
fn backends_are_told_of_the_end_too() {
    let (tell, told) = std::sync::mpsc::channel();
    let backend = tls_backend_of(&[], move |stream| {
        stream.write_all(b"a\n")?;
        tell.send(stream.read_to_end(&mut Vec::new()).is_ok())
            .map_err(io::Error::other)
    });
    let mut settings = service(Frontend::Tcp, &[backend]);
    settings.listeners[0].backend_protocol = BackendProtocol::Ssl;
    settings.policy.idle_timeout = Duration::from_millis(100);
    let setting = Setting::new(settings);
    let mut client = setting.connect();
    greeting(&mut client).expect("a greeting");
    assert_eq!(told.recv_timeout(PATIENCE), Ok(true));
}

#[test]
fn policies_say_what_is_agreed_on() {
    let certificate = certificate(&["shop.test"]);
    let mut setting = Setting::new(service(Frontend::Ssl(tls(&[&certificate])), &[named("a")]));
    let mut agreed = |alpn, offered: &[&str]| {
        let mut settings = tls(&[&certificate]);
        settings.alpn = alpn;
        setting.service.listeners[0].frontend = Frontend::Ssl(settings);
        setting.apply();
        let mut config = ClientConfig::clone(&any_trusting(&certificate));
        config.alpn_protocols = named_protocols(offered);
        let mut client = connect(&setting, &Arc::new(config), "shop.test").expect("a handshake");
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
    // Who offers nothing of that goes on without.
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
    assert_eq!(agreed(Alpn::AsSpoken, ALL), None);
}

#[test]
fn backends_agree_on_what_the_client_did() {
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
    let setting = Setting::new(settings);
    for (offered, expected) in [(&["h2"][..], "h2"), (&["http/1.1"], "http/1.1"), (&[], "none")] {
        let mut config = ClientConfig::clone(&any_trusting(&certificate));
        config.alpn_protocols = named_protocols(offered);
        let mut client = connect(&setting, &Arc::new(config), "shop.test").expect("a handshake");
        assert_eq!(greeting(&mut client).expect("a protocol"), expected);
    }
}
