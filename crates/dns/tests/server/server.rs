//! The server on sockets of the loopback interface, with well-behaved and hostile resolvers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Decoded, decode, objects, question, type_number};
use dns::forward::Forwarder;
use dns::records::{Index, Settings};
use dns::server::{Responder, Server};
use dns::wire::Name;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Endpoints of the headless Service: too many for 512 bytes.
const ENDPOINTS: u8 = 100;

fn index() -> Arc<Index> {
    let cluster_domain = Name::from_text("cluster.local").expect("a name");
    let index = Index::new(Settings::of(cluster_domain));
    for service in [
        objects::service("web", "10.96.0.1"),
        objects::service("big", "None"),
        objects::alias("out", "example.com"),
    ] {
        index.apply_service(&service).expect("applied");
    }
    index
        .apply_slice(&objects::slice("big", ENDPOINTS))
        .expect("applied");
    index.set_synced();
    Arc::new(index)
}

fn serve(listen: &str, upstreams: Vec<SocketAddr>) -> Server {
    let responder = Arc::new(Responder::new(index(), Forwarder::to(upstreams)));
    Server::start(&[listen.parse().expect("an address")], responder).expect("a free port")
}

/// Queries over UDP; `None` without a response.
async fn query(server: SocketAddr, message: Vec<u8>) -> Option<Decoded> {
    let local: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    let socket = tokio::net::UdpSocket::bind((local, 0)).await.expect("a socket");
    // Connected, so that an answer from another address is not accepted.
    socket.connect(server).await.expect("a route");
    socket.send(&message).await.expect("sent");
    let mut buffer = vec![0; 65_535];
    let received = tokio::time::timeout(Duration::from_secs(20), socket.recv(&mut buffer))
        .await
        .ok()?;
    Some(decode(&buffer[..received.expect("received")]))
}

async fn tcp_ask(stream: &mut TcpStream) -> Decoded {
    let mut answer = vec![0; usize::from(stream.read_u16().await.expect("a length"))];
    stream.read_exact(&mut answer).await.expect("an answer");
    decode(&answer)
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).expect("short");
    [&length.to_be_bytes(), message].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_come_from_the_queried_address() {
    let server = serve("0.0.0.0:0", Vec::new());
    let port = server.addresses()[0].port();
    for host in [1, 2, 77] {
        let address = SocketAddr::from(([127, 0, 0, host], port));
        let answer = query(address, question(9, "Web.ns.svc.cluster.local.", "A", None))
            .await
            .expect("an answer");
        assert_eq!(
            (answer.id, answer.name.as_str()),
            (9, "Web.ns.svc.cluster.local."),
            "in the case of the query"
        );
        assert_eq!(answer.answer, ["web.ns.svc.cluster.local. A 10.96.0.1"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ipv6_clients_are_answered() {
    if UdpSocket::bind("[::1]:0").is_err() {
        eprintln!("skipped: ipv6_clients_are_answered: this host has no IPv6");
        return;
    }
    let server = serve("[::]:0", Vec::new());
    let address = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), server.addresses()[0].port());
    let answer = query(address, question(9, "web.ns.svc.cluster.local.", "A", None))
        .await
        .expect("an answer");
    assert_eq!(answer.answer, ["web.ns.svc.cluster.local. A 10.96.0.1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_responses_are_truncated() {
    let server = serve("127.0.0.1:0", Vec::new());
    let address = server.addresses()[0];
    let cut = query(address, question(1, "big.ns.svc.cluster.local.", "A", None))
        .await
        .expect("an answer");
    assert!(cut.truncated && cut.answer.len() < usize::from(ENDPOINTS));
    let whole = query(
        address,
        question(1, "big.ns.svc.cluster.local.", "A", Some(4_096)),
    )
    .await
    .expect("an answer");
    assert_eq!(
        (whole.truncated, whole.answer.len(), whole.edns),
        (false, usize::from(ENDPOINTS), Some(4_096))
    );

    // Two queries at once on one connection, cut at an odd place.
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let first = framed(&question(1, "big.ns.svc.cluster.local.", "A", None));
    let both = [
        first,
        framed(&question(2, "nope.ns.svc.cluster.local.", "A", None)),
    ]
    .concat();
    stream.write_all(&both[..7]).await.expect("written");
    stream.write_all(&both[7..]).await.expect("written");
    let whole = tcp_ask(&mut stream).await;
    assert_eq!(
        (whole.id, whole.truncated, whole.answer.len()),
        (1, false, usize::from(ENDPOINTS))
    );
    let nothing = tcp_ask(&mut stream).await;
    assert_eq!((nothing.id, nothing.code), (2, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_messages_do_not_stop_the_server() {
    let server = serve("127.0.0.1:0", Vec::new());
    let address = server.addresses()[0];
    let noise = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let valid = question(1, "web.ns.svc.cluster.local.", "A", Some(1_232));
    for length in 0..valid.len() {
        noise.send_to(&valid[..length], address).expect("sent");
    }
    noise.send_to(&vec![0xC0; 9_000], address).expect("sent");
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(&[0, 3, 1, 2, 3]).await.expect("written");
    let mut rest = Vec::new();
    assert_eq!(
        stream.read_to_end(&mut rest).await.expect("closed"),
        0,
        "too short for a header"
    );

    let mut chaos = question(3, "web.ns.svc.cluster.local.", "A", None);
    let class = chaos.len() - 1;
    chaos[class] = 3;
    assert_eq!(query(address, chaos).await.expect("an answer").code, 5);
    let mut version = question(4, "web.ns.svc.cluster.local.", "A", Some(512));
    let at = version.len() - 5;
    version[at] = 1;
    let refused = query(address, version).await.expect("an answer");
    assert!(
        refused.answer.is_empty() && refused.edns.is_some(),
        "EDNS version 1 is not known"
    );
    assert_eq!(query(address, valid).await.expect("an answer").answer.len(), 1);
}

/// A resolver that responds first with another identifier, then with another question, then correctly. It sets TC in
/// every response, and responds with two addresses instead of one over TCP.
async fn misbehaving_resolver() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a socket");
    let address = listener.local_addr().expect("bound");
    let socket = tokio::net::UdpSocket::bind(address).await.expect("the same port");
    tokio::spawn(async move {
        let mut buffer = [0; 512];
        while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
            let query = &buffer[..length];
            let mut wrong_id = answer_to(query, &[Ipv4Addr::new(6, 6, 6, 6)], false);
            wrong_id[0] ^= 1;
            let mut wrong_name = answer_to(query, &[Ipv4Addr::new(6, 6, 6, 6)], false);
            wrong_name[13] ^= 1;
            let right = answer_to(query, &[Ipv4Addr::new(192, 0, 2, 1)], true);
            for message in [wrong_id, wrong_name, right] {
                socket.send_to(&message, peer).await.expect("sent");
            }
        }
    });
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut query = vec![0; usize::from(stream.read_u16().await.expect("a length"))];
            stream.read_exact(&mut query).await.expect("a query");
            let addresses = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
            stream
                .write_all(&framed(&answer_to(&query, &addresses, false)))
                .await
                .expect("written");
        }
    });
    address
}

/// A response with the question and A records.
fn answer_to(query: &[u8], addresses: &[Ipv4Addr], truncated: bool) -> Vec<u8> {
    let end = 12 + query[12..].iter().position(|octet| *octet == 0).expect("a name") + 5;
    let mut answer = query[..end].to_vec();
    answer[2] = if truncated { 0x83 } else { 0x81 };
    answer[3] = 0x80;
    answer[7] = u8::try_from(addresses.len()).expect("few");
    answer[11] = 0;
    for address in addresses {
        answer.extend([0xC0, 12, 0]);
        answer.push(u8::try_from(type_number("A")).expect("small"));
        answer.extend([0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend(address.octets());
    }
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn other_names_are_forwarded() {
    let server = serve("127.0.0.1:0", vec![misbehaving_resolver().await]);
    let address = server.addresses()[0];
    let answer = query(address, question(77, "example.com.", "A", None))
        .await
        .expect("an answer");
    assert_eq!(
        (answer.id, answer.truncated),
        (77, false),
        "what is cut upstream is had over TCP"
    );
    let both = ["example.com. A 192.0.2.1", "example.com. A 192.0.2.2"];
    assert_eq!(answer.answer, both);

    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream
        .write_all(&framed(&question(78, "example.com.", "A", None)))
        .await
        .expect("written");
    let answer = tcp_ask(&mut stream).await;
    assert_eq!((answer.id, answer.truncated), (78, false));
    assert_eq!(
        answer.answer,
        ["example.com. A 192.0.2.1", "example.com. A 192.0.2.2"]
    );

    let alias = query(address, question(79, "out.ns.svc.cluster.local.", "A", None))
        .await
        .expect("an answer");
    assert!(alias.authoritative && alias.code == 0);
    let expected = [
        "out.ns.svc.cluster.local. CNAME example.com.",
        "example.com. A 192.0.2.1",
        "example.com. A 192.0.2.2",
    ];
    assert_eq!(alias.answer, expected);
    // Names of the cluster are never forwarded; a response of upstream would show it.
    let own = query(address, question(80, "nope.ns.svc.cluster.local.", "A", None))
        .await
        .expect("an answer");
    assert_eq!((own.code, own.answer.len()), (3, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn falls_back_to_next_resolver() {
    // No socket is bound to a port that was just released, so the kernel rejects at once.
    let unused = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|socket| socket.local_addr())
        .expect("a port");
    let server = serve("127.0.0.1:0", vec![unused, misbehaving_resolver().await]);
    let answer = query(server.addresses()[0], question(5, "example.com.", "A", None))
        .await
        .expect("an answer");
    assert_eq!(answer.answer.len(), 2);

    let alone = serve("127.0.0.1:0", vec![unused]);
    let failed = query(alone.addresses()[0], question(6, "example.com.", "A", None))
        .await
        .expect("an answer");
    assert_eq!((failed.id, failed.code), (6, 2));
    let alias = query(
        alone.addresses()[0],
        question(7, "out.ns.svc.cluster.local.", "A", None),
    )
    .await
    .expect("an answer");
    assert_eq!(
        alias.code, 2,
        "an alias without its address would read as: no such address"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_server_releases_its_port() {
    let server = serve("127.0.0.1:0", Vec::new());
    let address = server.addresses()[0];
    drop(server);
    UdpSocket::bind(address).expect("the UDP port is free again");
}
