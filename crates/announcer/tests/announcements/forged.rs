//! A host on the network that can read the member list and forges messages of members, source addresses included.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use announcer::NodeCapabilities;
use announcer::protocol::keys::{Keyring, SecretKey};
use announcer::protocol::message::{Echo, Message, Timestamp, VoteEntry};
use api::announcers::{ANNOTATION, NAME, NodeName, Record};
use http::Method;
use netlink::clock::since_boot;
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};

use crate::arp_observer::ArpObserver;
use crate::fixture::{ADDRESS, Fixture, start_announcer, wait_for_members};
use crate::support::request;

/// Rounds. In each, every member receives a forged message of every other one; a round takes a tenth of a second.
const ROUNDS: u32 = 20;
/// Headers of IPv4 and UDP.
const HEADER_BYTES: usize = 28;
/// `IPPROTO_RAW` and `IPPROTO_UDP`.
const RAW: i32 = 255;
const UDP: u8 = 17;

#[test]
fn forged_messages_of_members_move_no_address() {
    testbed::in_namespace(|| {
        let Fixture { cluster, api, .. } = &Fixture::start(3);
        let names = ["node-1", "node-2", "node-3"];
        let _announcers = names.map(|name| start_announcer(cluster, &api.announcer, name));
        wait_for_members(cluster, &api.admin);
        let mut observer = ArpObserver::start(cluster);
        observer.observe(Duration::from_secs(3));
        let owner = observer.owners.last().copied().expect("an owner");
        observer.owners.clear();

        let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{NAME}");
        let lease: Value = request(cluster, &api.admin, Method::GET, &path, client::JSON, None);
        let record = lease["metadata"]["annotations"][ANNOTATION].as_str();
        let record = Record::from_json(record.expect("a record")).expect("a record");
        let outside = cluster.outside().expect("the outside");
        let open = || Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(RAW)));
        let socket = outside.enter(open).expect("its namespace").expect("a raw socket");
        for _ in 0..ROUNDS {
            for (victim, receiver) in names.iter().flat_map(|a| names.map(|b| (*a, b))) {
                if victim != receiver {
                    send_forged_messages(&socket, &record, victim, receiver);
                }
            }
            observer.observe(Duration::from_millis(100));
        }
        assert!(
            observer.owners.iter().all(|seen| *seen == owner),
            "{:?}",
            observer.owners
        );
        assert!(!observer.owners.is_empty(), "no node answers for the address");
    });
}

/// Forges messages of a member: shutdown, votes and releases.
fn send_forged_messages(socket: &Socket, record: &Record, victim: &str, receiver: &str) {
    let entry = |name: &str| record.member(name).expect("a member");
    let incarnation = |name: &str| entry(name).process.as_ref().expect("a process").incarnation;
    let address = IpAddr::from(ADDRESS);
    let now = Timestamp(since_boot().as_nanos() as u64);
    let message = Message {
        from: victim.into(),
        to: receiver.into(),
        incarnation: incarnation(victim),
        timestamp: Timestamp(now.0 + 1_000_000_000),
        epoch: record.epoch,
        min_epoch: record.epoch,
        is_quorate: false,
        is_leaving: true,
        echo: Some(Echo {
            incarnation: incarnation(receiver),
            timestamp: now,
        }),
        lease_generation: Some(1),
        entries: vec![
            VoteEntry::ReleaseAddress(address),
            VoteEntry::GrantVote(address),
            VoteEntry::RequestVote(address),
        ],
        capabilities: NodeCapabilities::default(),
        link_addresses: Vec::new(),
    };
    let mut forger = Keyring::new(
        NodeName::from(victim),
        incarnation(victim),
        SecretKey::new([9; 32]),
    );
    forger.update(Some(record));
    let bytes = forger.seal(&message).expect("a key");
    let (from, to) = (entry(victim).address, entry(receiver).address);
    let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else {
        panic!("the nodes have IPv4 addresses");
    };
    let packet = packet(from, to, &bytes);
    socket
        .send_to(&packet, &SocketAddrV4::new(*to.ip(), 0).into())
        .expect("sent");
}

/// An IPv4 packet with a datagram, from any source. The kernel fills in fields that are zero.
fn packet(from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let octets = |address: &Ipv4Addr| address.octets();
    let mut packet = vec![0x45, 0];
    packet.extend(((HEADER_BYTES + payload.len()) as u16).to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, UDP, 0, 0]);
    packet.extend(octets(from.ip()));
    packet.extend(octets(to.ip()));
    packet.extend(from.port().to_be_bytes());
    packet.extend(to.port().to_be_bytes());
    packet.extend(((8 + payload.len()) as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    packet
}
