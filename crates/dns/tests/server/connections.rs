//! Connections: slow clients, many idle ones, TLS, and zone transfers.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use crate::support::{Decoded, decode, objects, question};
use dns::forward::Forwarder;
use dns::records::{Index, Settings};
use dns::server::{Policy, Responder, Server, ServerSettings};
use dns::wire::Name;
use dns::zone::Zone;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

const WEB: &str = "web.ns.svc.cluster.local.";

fn responder(transfer_to: &[&str]) -> Arc<Responder> {
    let index = Index::new(Settings::of(Name::from_text("cluster.local").expect("a name")));
    index
        .apply_service(&objects::service("web", "10.96.0.1"))
        .expect("applied");
    index.set_synced();
    let policy = Policy {
        transfer_to: transfer_to
            .iter()
            .map(|net| net.parse().expect("a net"))
            .collect(),
        ..Policy::default()
    };
    let zone = Arc::new(Zone::new(Arc::new(index)));
    Arc::new(Responder::with_policy(
        zone,
        Forwarder::to(Vec::new()),
        policy,
        Arc::default(),
    ))
}

fn local() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), message: &[u8]) {
    let length = u16::try_from(message.len()).expect("short").to_be_bytes();
    stream
        .write_all(&[&length, message].concat())
        .await
        .expect("written");
}

async fn receive(stream: &mut (impl AsyncRead + Unpin)) -> Decoded {
    let mut answer = vec![0; usize::from(stream.read_u16().await.expect("a length"))];
    stream.read_exact(&mut answer).await.expect("an answer");
    decode(&answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_sender_is_cut_off() {
    let server = Server::start(&[local()], responder(&[])).expect("a free port");
    let mut slow = TcpStream::connect(server.addresses()[0])
        .await
        .expect("a connection");
    slow.write_all(&[0, 40, 1]).await.expect("written");
    let mut rest = Vec::new();
    // The server closes the connection, by FIN or by RST.
    let ended = slow.read_to_end(&mut rest).await;
    assert!(ended.is_err() || rest.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_do_not_block_others() {
    const IDLE: usize = 400;
    let server = Server::start(&[local()], responder(&[])).expect("a free port");
    let address = server.addresses()[0];
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        idle.push(TcpStream::connect(address).await.expect("a connection"));
    }
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    send(&mut stream, &question(1, WEB, "A", None)).await;
    assert_eq!(
        receive(&mut stream).await.answer,
        ["web.ns.svc.cluster.local. A 10.96.0.1"]
    );
    let socket = UdpSocket::bind(local()).await.expect("a socket");
    socket.connect(address).await.expect("a route");
    socket.send(&question(2, WEB, "A", None)).await.expect("sent");
    let mut buffer = [0; 512];
    let length = socket.recv(&mut buffer).await.expect("an answer");
    assert_eq!(decode(&buffer[..length]).id, 2);
    // All of them can still send queries.
    for stream in idle.iter_mut().step_by(100) {
        send(stream, &question(3, WEB, "A", None)).await;
        assert_eq!(receive(stream).await.id, 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn zone_transfer_is_restricted_to_allowed_networks() {
    let transfer = question(7, "cluster.local.", "AXFR", None);
    let server = Server::start(&[local()], responder(&["127.0.0.0/8"])).expect("a free port");
    let mut stream = TcpStream::connect(server.addresses()[0])
        .await
        .expect("a connection");
    send(&mut stream, &transfer).await;
    let answer = receive(&mut stream).await;
    assert!(answer.authoritative && answer.code == 0);
    let soa = "cluster.local. SOA soa".to_owned();
    assert_eq!(
        (answer.answer.first(), answer.answer.last()),
        (Some(&soa), Some(&soa))
    );
    assert!(
        answer
            .answer
            .contains(&"web.ns.svc.cluster.local. A 10.96.0.1".to_owned())
    );
    send(&mut stream, &question(8, WEB, "A", None)).await;
    assert_eq!(receive(&mut stream).await.id, 8, "the connection goes on");

    let strict = Server::start(&[local()], responder(&["192.0.2.0/24"])).expect("a free port");
    let mut stream = TcpStream::connect(strict.addresses()[0])
        .await
        .expect("a connection");
    send(&mut stream, &transfer).await;
    assert_eq!(receive(&mut stream).await.code, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_accepted_over_tls() {
    let provider = || Arc::new(rustls::crypto::ring::default_provider());
    let made = rcgen::generate_simple_self_signed(vec!["dns.test".to_owned()]).expect("a certificate");
    let certificate = made.cert.der().clone();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let config = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .expect("a pair");
    let listening = ServerSettings {
        tls: vec![local()],
        tls_config: Some(Arc::new(config)),
        ..ServerSettings::default()
    };
    let server = Server::listen(&listening, responder(&[])).expect("a free port");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).expect("a root");
    let client = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(server.addresses()[0])
        .await
        .expect("a connection");
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    let name = "dns.test".try_into().expect("a name");
    let mut stream = connector.connect(name, stream).await.expect("a handshake");
    for id in 1..=3 {
        send(&mut stream, &question(id, WEB, "A", Some(1_232))).await;
        let answer = receive(&mut stream).await;
        assert_eq!((answer.id, answer.answer.len()), (id, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flood_from_one_network_is_truncated_and_dropped() {
    let listening = ServerSettings {
        plain: vec![local()],
        responses_per_second_max: 5,
        ..ServerSettings::default()
    };
    let server = Server::listen(&listening, responder(&[])).expect("a free port");
    let socket = UdpSocket::bind(local()).await.expect("a socket");
    socket.connect(server.addresses()[0]).await.expect("a route");
    const QUERIES: u16 = 200;
    for id in 0..QUERIES {
        socket.send(&question(id, WEB, "A", None)).await.expect("sent");
    }
    let mut buffer = [0; 512];
    let (mut whole, mut cut) = (0, 0);
    while let Ok(received) =
        tokio::time::timeout(std::time::Duration::from_millis(500), socket.recv(&mut buffer)).await
    {
        let answer = decode(&buffer[..received.expect("received")]);
        if answer.truncated { cut += 1 } else { whole += 1 }
    }
    assert!(whole >= 10 && cut > 0, "{whole} whole and {cut} cut answers");
    assert!(whole + cut < QUERIES, "some are held back");
}
