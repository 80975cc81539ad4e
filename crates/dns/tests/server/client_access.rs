//! Allowed clients, refused clients, and limits of responses to each.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Decoded, decode, objects, question};
use dns::forward::Forwarder;
use dns::records::{Index, Settings};
use dns::server::{ClientAccessList, Peer, Policy, Reaction, Responder, Server, ServerSettings, Transport};
use dns::wire::Name;
use dns::zone::Zone;
use testbed::{Topology, in_namespace};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

const WEB: &str = "web.ns.svc.cluster.local.";
const BIG: &str = "big.ns.svc.cluster.local.";
const REFUSED: u16 = 5;

/// A responder that answers clients of these networks only.
fn responder(allowed: &[&str], udp_bytes_max: usize) -> Responder {
    let index = Index::new(Settings::of(Name::from_text("cluster.local").expect("a name")));
    for service in [
        objects::service("web", "10.96.0.1"),
        objects::service("big", "None"),
    ] {
        index.apply_service(&service).expect("applied");
    }
    index.apply_slice(&objects::slice("big", 200)).expect("applied");
    index.set_synced();
    let clients = ClientAccessList::of_networks(allowed.iter().map(|net| net.parse().expect("a net")));
    let policy = Policy {
        clients: Some(Arc::new(clients)),
        udp_bytes_max,
        ..Policy::default()
    };
    Responder::with_policy(
        Arc::new(Zone::new(Arc::new(index))),
        Forwarder::to(Vec::new()),
        policy,
        Arc::default(),
    )
}

/// A server on all addresses that answers clients of these networks only.
fn serve(allowed: &[&str], refusals_per_second_max: u32, udp_bytes_max: usize) -> Server {
    let responder = responder(allowed, udp_bytes_max);
    let listening = ServerSettings {
        plain: vec![SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))],
        refusals_per_second_max,
        ..ServerSettings::default()
    };
    Server::listen(&listening, Arc::new(responder)).expect("a free port")
}

/// Queries over UDP; returns the response with its bytes, or `None` without a response.
async fn query(server: SocketAddr, message: &[u8]) -> Option<(Decoded, usize)> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .await
        .expect("a socket");
    socket.connect(server).await.expect("a route");
    socket.send(message).await.expect("sent");
    let mut buffer = vec![0; 65_535];
    let received = tokio::time::timeout(Duration::from_secs(5), socket.recv(&mut buffer)).await;
    let octets = received.ok()?.expect("received");
    Some((decode(&buffer[..octets]), octets))
}

async fn query_tcp(server: SocketAddr, message: &[u8]) -> Decoded {
    let mut stream = TcpStream::connect(server).await.expect("a connection");
    let length = u16::try_from(message.len()).expect("short").to_be_bytes();
    stream
        .write_all(&[&length, message].concat())
        .await
        .expect("written");
    let mut answer = vec![0; usize::from(stream.read_u16().await.expect("a length"))];
    stream.read_exact(&mut answer).await.expect("an answer");
    decode(&answer)
}

#[test]
fn clients_of_other_networks_get_few_refusals() {
    in_namespace(|| {
        let cluster =
            testbed::Cluster::start(Topology::with_nodes(2).expect("a topology")).expect("namespaces");
        let names = ["node-1", "node-2"];
        let [server, client] = names.map(|name| cluster.member(name).expect("a host"));
        let runtime = || tokio::runtime::Runtime::new().expect("a runtime");
        let served = runtime();
        let address = |member: &testbed::Member, port| SocketAddr::from((member.plan.address.ipv4, port));
        let of_client = format!("{}/32", client.plan.address.ipv4);
        let start = |allowed: &[&str]| {
            server
                .enter(|| served.block_on(async { serve(allowed, 5, 1_232) }))
                .expect("a namespace")
        };
        let (strict, open) = (start(&["192.0.2.0/24"]), start(&[&of_client]));
        let [strict_at, open_at] =
            [&strict, &open].map(|listener| address(server, listener.addresses()[0].port()));
        client
            .enter(|| {
                runtime().block_on(async {
                    let message = question(7, WEB, "A", None);
                    let (answer, octets) = query(strict_at, &message).await.expect("a refusal");
                    assert_eq!((answer.code, answer.answer.len()), (REFUSED, 0));
                    assert!(
                        octets <= message.len(),
                        "a refusal is no longer than its question"
                    );
                    assert_eq!(query_tcp(strict_at, &message).await.code, REFUSED);
                    let transfer = question(8, "cluster.local.", "AXFR", None);
                    assert_eq!(query_tcp(strict_at, &transfer).await.code, REFUSED);
                    let (answer, _) = query(open_at, &message).await.expect("an answer");
                    assert_eq!(answer.answer, ["web.ns.svc.cluster.local. A 10.96.0.1"]);
                    let refusals = flood(strict_at).await;
                    assert!(
                        refusals < 50,
                        "{refusals} refusals of 500 questions at 5 a second"
                    );
                    assert_eq!(
                        flood(open_at).await,
                        500,
                        "clients that are answered have no limit"
                    );
                });
            })
            .expect("a namespace");
        let own = SocketAddr::from((Ipv4Addr::LOCALHOST, strict_at.port()));
        let (answer, _) = server
            .enter(|| runtime().block_on(query(own, &question(9, WEB, "A", None))))
            .expect("a namespace")
            .expect("an answer");
        assert_eq!(answer.code, 0, "loopback is always answered");
    });
}

/// Number of responses to 500 queries in bursts that fit into the socket buffers.
async fn flood(server: SocketAddr) -> usize {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .await
        .expect("a socket");
    socket.connect(server).await.expect("a route");
    let mut answers = 0;
    for round in 0..10 {
        for id in 0..50 {
            let message = question(round * 50 + id, WEB, "A", None);
            socket.send(&message).await.expect("sent");
        }
        let mut buffer = [0; 512];
        let timeout = Duration::from_millis(300);
        for _ in 0..50 {
            match tokio::time::timeout(timeout, socket.recv(&mut buffer)).await {
                Ok(received) => answers += received.map_or(0, |_| 1),
                Err(_) => break,
            }
        }
    }
    answers
}

#[test]
fn udp_responses_to_other_hosts_have_and_advertise_at_most_1232_bytes() {
    let responder = responder(&["192.0.2.0/24"], 1_232);
    let peer = Peer {
        address: [192, 0, 2, 1].into(),
        transport: Transport::Udp,
    };
    let mut buffer = vec![0; 65_535];
    for edns in [None, Some(512), Some(1_400), Some(4_096), Some(65_535)] {
        let message = question(1, BIG, "A", edns);
        let reaction = responder.respond(&message, peer, &mut buffer, &mut responder.worker_state());
        let Reaction::Send(octets) = reaction else {
            panic!("the name is in the zone");
        };
        let answer = decode(&buffer[..octets]);
        let limit = edns.unwrap_or(512).min(1_232);
        assert!(answer.truncated, "200 endpoints do not fit");
        assert!(octets <= usize::from(limit), "{octets} bytes for {edns:?}");
        assert_eq!(answer.edns, edns.map(|_| limit));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_to_loopback_addresses_and_over_tcp_are_larger() {
    let server = serve(&["127.0.0.0/8"], 0, 1_232);
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, server.addresses()[0].port()));
    for edns in [4_096, 65_535] {
        let (answer, _) = query(at, &question(1, BIG, "A", Some(edns)))
            .await
            .expect("an answer");
        assert!(!answer.truncated && answer.answer.len() == 200);
        assert_eq!(answer.edns, Some(4_096));
    }
    let whole = query_tcp(at, &question(2, BIG, "A", Some(4_096))).await;
    assert!(!whole.truncated && whole.answer.len() == 200);
}
