//! A host on the path between announcers, which records their datagrams and sends them again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use http::Method;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, recv, sendto};
use serde_json::json;
use testbed::Member;
use testbed::asker::{Asker, Hardware};

use crate::lab::Lab;

const SERVER: &str = "node-1";
const OTHER: &str = "node-2";
const SERVICES: &str = "/api/v1/namespaces/default/services";
/// Where announcers listen.
const PORT: u16 = 7_947;
/// Addresses: enough that each of two nodes has some.
const ADDRESSES: std::ops::Range<u8> = 200..208;
/// Rounds of questions with the same answers after which addresses have settled.
const SETTLED_ROUNDS: u32 = 60;
const PACKET_BYTES: usize = 2_048;
/// Some times what an announcer waits before it takes another one for dead.
const REPLAY: Duration = Duration::from_secs(12);

/// Who answers for each address.
type Owners = BTreeMap<Ipv4Addr, Hardware>;

/// Asks for all addresses until each has been answered for, or a while has passed.
fn owners(asker: &Asker, lasts: Duration) -> Owners {
    let mut owners = Owners::new();
    let end = Instant::now() + lasts;
    while Instant::now() < end && owners.len() < ADDRESSES.len() {
        for last in ADDRESSES {
            asker.ask(Ipv4Addr::new(172, 30, 0, last)).expect("sent");
        }
        std::thread::sleep(Duration::from_millis(50));
        owners.extend(asker.hear_all().expect("frames"));
    }
    owners.retain(|address, _| ADDRESSES.contains(&address.octets()[3]));
    owners
}

/// A raw socket in the namespace of a machine: it receives the IPv4 packets of UDP that arrive there, or sends whole packets.
fn raw_socket(machine: &Member, protocol: rustix::net::Protocol) -> OwnedFd {
    let open = || {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::RAW, Some(protocol))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_millis(20)))?;
        Ok::<_, rustix::io::Errno>(socket)
    };
    machine.enter(open).expect("a namespace").expect("a raw socket")
}

/// The packets for announcers that arrive meanwhile.
fn record(sockets: &[OwnedFd], lasts: Duration) -> Vec<Vec<u8>> {
    let mut recorded = Vec::new();
    let mut packet = [0; PACKET_BYTES];
    let end = Instant::now() + lasts;
    while Instant::now() < end {
        for socket in sockets {
            let Ok((octets, _)) = recv(socket, &mut packet[..], RecvFlags::empty()) else {
                continue;
            };
            if octets > 28 && packet[22..24] == PORT.to_be_bytes() {
                let mut packet = packet[..octets].to_vec();
                // The sender's kernel leaves the checksum to hardware that is not there; UDP over IPv4 needs none.
                packet[26..28].fill(0);
                recorded.push(packet);
            }
        }
    }
    recorded
}

/// A message of an earlier process must not silence the present one: its addresses stay.
#[test]
fn replayed_votes_move_no_address() {
    testbed::in_namespace(|| {
        let mut lab = Lab::new(2);
        let pool = "--load-balancer-addresses=172.30.0.200-172.30.0.207";
        lab.up(SERVER, &[pool]);
        let command = lab.token(SERVER, &["--print-join-command"]);
        let server = command
            .split_whitespace()
            .skip_while(|word| *word != "--server")
            .nth(1);
        let server = server.expect("the address of the server").to_owned();
        let token = lab.token(SERVER, &[]);
        let words = ["--server", &server, "--token", &token];
        lab.join(OTHER, &words);
        lab.await_node(SERVER, OTHER, "True");
        for last in ADDRESSES {
            let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{last}")},
                "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
            lab.ask(SERVER, Method::POST, SERVICES, Some(&service));
        }
        let asker = Asker::new(lab.cluster().outside().expect("the outside")).expect("a socket");
        // An address moves when a node joins; it has settled when the owners are two and stay.
        let settled = |lab: &Lab| {
            let (mut last, mut rounds) = (Owners::new(), 0);
            lab.until("two lasting owners of all addresses", |_| {
                let found = owners(&asker, Duration::from_secs(2));
                let nodes: BTreeSet<Hardware> = found.values().copied().collect();
                let is_same = found == last && found.len() == ADDRESSES.len() && nodes.len() == 2;
                rounds = if is_same { rounds + 1 } else { 0 };
                last = found;
                (rounds == SETTLED_ROUNDS).then(|| last.clone())
            })
        };
        settled(&lab);
        let member = |name| lab.cluster().member(name).expect("a machine");
        let sockets = [SERVER, OTHER].map(|name| raw_socket(member(name), ipproto::UDP));
        let recorded = record(&sockets, Duration::from_secs(4));
        assert!(!recorded.is_empty(), "the announcers talk");
        // New processes on both machines.
        lab.kill(OTHER);
        lab.kill(SERVER);
        lab.up(SERVER, &[pool]);
        lab.join(OTHER, &words);
        let before = settled(&lab);
        let attacker = raw_socket(lab.cluster().outside().expect("the outside"), ipproto::RAW);
        let end = Instant::now() + REPLAY;
        while Instant::now() < end {
            for packet in recorded.iter().take(200) {
                let to = Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]);
                sendto(&attacker, packet, SendFlags::empty(), &SocketAddrV4::new(to, 0)).expect("sent");
            }
            let now = owners(&asker, Duration::from_secs(1));
            assert_eq!(now, before, "addresses have moved or are not answered for");
        }
    });
}
