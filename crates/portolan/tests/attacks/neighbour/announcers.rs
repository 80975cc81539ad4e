//! Replay of datagrams by a host on the path between announcers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use http::Method;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, recv, sendto};
use serde_json::json;
use testbed::Member;
use testbed::arp_client::{ArpClient, EthernetAddress};

use crate::test_cluster::TestCluster;

const SERVER: &str = "node-1";
const OTHER: &str = "node-2";
const SERVICES: &str = "/api/v1/namespaces/default/services";
/// UDP port of the announcers.
const PORT: u16 = 7_947;
/// Last bytes of the load balancer IPs; enough that each of two nodes owns some.
const ADDRESSES: std::ops::Range<u8> = 200..208;
/// Rounds of ARP requests with the same owners after which the assignment is stable.
const STABLE_ROUNDS: u32 = 60;
/// Size of the buffer for a packet.
const PACKET_BYTES_MAX: usize = 2_048;
/// Duration of the replay: a multiple of the failure detection time.
const REPLAY: Duration = Duration::from_secs(12);

/// EthernetAddress address of the responder for each address.
type Owners = BTreeMap<Ipv4Addr, EthernetAddress>;

/// Sends ARP requests for all addresses until each has a reply or the time has passed.
fn owners(arp_client: &ArpClient, duration: Duration) -> Owners {
    let mut owners = Owners::new();
    let end = Instant::now() + duration;
    while Instant::now() < end && owners.len() < ADDRESSES.len() {
        for last in ADDRESSES {
            arp_client
                .send_request(Ipv4Addr::new(172, 30, 0, last))
                .expect("an ARP request");
        }
        std::thread::sleep(Duration::from_millis(50));
        owners.extend(arp_client.claims().expect("ARP replies"));
    }
    owners.retain(|address, _| ADDRESSES.contains(&address.octets()[3]));
    owners
}

/// Opens a raw socket on a host, to receive the IPv4 packets of UDP or to send complete packets.
fn raw_socket(host: &Member, protocol: rustix::net::Protocol) -> OwnedFd {
    let open = || {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::RAW, Some(protocol))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_millis(20)))?;
        Ok::<_, rustix::io::Errno>(socket)
    };
    host.enter(open).expect("a namespace").expect("a raw socket")
}

/// Records the packets for announcers for a while.
fn record(sockets: &[OwnedFd], duration: Duration) -> Vec<Vec<u8>> {
    let mut recorded = Vec::new();
    let mut packet = [0; PACKET_BYTES_MAX];
    let end = Instant::now() + duration;
    while Instant::now() < end {
        for socket in sockets {
            let Ok((octets, _)) = recv(socket, &mut packet[..], RecvFlags::empty()) else {
                continue;
            };
            if octets > 28 && packet[22..24] == PORT.to_be_bytes() {
                let mut packet = packet[..octets].to_vec();
                // The checksum is incomplete because of offloading to a virtual link. UDP over IPv4 may omit it.
                packet[26..28].fill(0);
                recorded.push(packet);
            }
        }
    }
    recorded
}

/// Messages of an earlier process must not affect the current one.
#[test]
fn replayed_votes_move_no_address() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(2);
        let pool = "--load-balancer-addresses=172.30.0.200-172.30.0.207";
        cluster.up(SERVER, &[pool]);
        let command = cluster.token(SERVER, &["--print-join-command"]);
        let server = command
            .split_whitespace()
            .skip_while(|word| *word != "--server")
            .nth(1);
        let server = server.expect("a server in the join command").to_owned();
        let token = cluster.token(SERVER, &[]);
        let words = ["--server", &server, "--token", &token];
        cluster.join(OTHER, &words);
        cluster.wait_for_node(SERVER, OTHER, "True");
        for last in ADDRESSES {
            let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{last}")},
                "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
            cluster.request(SERVER, Method::POST, SERVICES, Some(&service));
        }
        let arp_client = ArpClient::new(cluster.network().outside().expect("the outside")).expect("a socket");
        // Addresses move when a node joins. The assignment is stable when both nodes own addresses and no
        // address moves.
        let wait_for_stable_owners = |cluster: &TestCluster| {
            let (mut last, mut rounds) = (Owners::new(), 0);
            cluster.wait_until("two stable owners of all addresses", |_| {
                let found = owners(&arp_client, Duration::from_secs(2));
                let nodes: BTreeSet<EthernetAddress> = found.values().copied().collect();
                let is_same = found == last && found.len() == ADDRESSES.len() && nodes.len() == 2;
                rounds = if is_same { rounds + 1 } else { 0 };
                last = found;
                (rounds == STABLE_ROUNDS).then(|| last.clone())
            })
        };
        wait_for_stable_owners(&cluster);
        let member = |name| cluster.network().member(name).expect("a node");
        let sockets = [SERVER, OTHER].map(|name| raw_socket(member(name), ipproto::UDP));
        let recorded = record(&sockets, Duration::from_secs(4));
        assert!(!recorded.is_empty(), "the announcers sent no datagrams");
        // Both nodes start new processes.
        cluster.kill(OTHER);
        cluster.kill(SERVER);
        cluster.up(SERVER, &[pool]);
        cluster.join(OTHER, &words);
        let before = wait_for_stable_owners(&cluster);
        let attacker = raw_socket(cluster.network().outside().expect("the outside"), ipproto::RAW);
        let end = Instant::now() + REPLAY;
        while Instant::now() < end {
            for packet in recorded.iter().take(200) {
                let to = Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]);
                sendto(&attacker, packet, SendFlags::empty(), &SocketAddrV4::new(to, 0))
                    .expect("a replayed packet");
            }
            let now = owners(&arp_client, Duration::from_secs(1));
            assert_eq!(now, before, "an address has moved or has no responder");
        }
    });
}
