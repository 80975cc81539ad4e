use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use dataplane::Dataplane;
use dataplane::iptables::{IptablesDataplane, Options as IptablesOptions, Variant};
use dataplane::nftables::{NftablesDataplane, Options as NftablesOptions};
use ipnet::IpNet;
use netlink::conntrack::Family as ConntrackFamily;
use netlink::nftables::TableFamily;
use netlink::route::{Connection, LinkChange, NetworkNamespace, Route};
use netlink::tcp;
use plan::{Plan, Settings};
use serde_json::json;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(5);
/// Addresses of the node towards its Pods, by IP family.
const GATEWAYS: [&str; 2] = ["10.244.0.1", "fd00:244::1"];
const CLIENT: [&str; 2] = ["10.244.0.2", "fd00:244::2"];
const SERVER: [&str; 2] = ["10.244.0.3", "fd00:244::3"];
const CLUSTER_IPS: [&str; 2] = ["10.96.0.5", "fd00:96::5"];

/// Node with the Pods of a client and of a server.
struct World {
    node: NetworkNamespace,
    client: NetworkNamespace,
    server: NetworkNamespace,
    /// Keeps the rules of its mode.
    _dataplane: Box<dyn Dataplane + Send>,
}

/// A connection through the Service, in one IP family.
struct Connected {
    client: TcpStream,
    server: TcpStream,
    frontend: SocketAddr,
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

impl World {
    fn new(open: fn() -> Box<dyn Dataplane + Send>) -> Self {
        let [node, client, server] = [(); 3].map(|()| NetworkNamespace::create().expect("a namespace"));
        for namespace in [&node, &client, &server] {
            enter(namespace, || {
                for (name, value) in [
                    ("net.ipv4.ip_forward", "1"),
                    ("net.ipv6.conf.all.forwarding", "1"),
                    ("net.ipv6.conf.all.accept_dad", "0"),
                    ("net.ipv6.conf.default.accept_dad", "0"),
                    ("net.ipv4.conf.all.rp_filter", "0"),
                    ("net.ipv4.conf.default.rp_filter", "0"),
                ] {
                    testbed::write_sysctl(name, value).expect("a setting");
                }
                set_link("lo", &LinkChange::up());
            });
        }
        join(&node, &client, "client", CLIENT);
        join(&node, &server, "server", SERVER);
        // Packets of the node to cluster IPs need a route.
        for address in SERVER {
            let mut connection = Connection::open_in(&node).expect("a connection");
            connection
                .add_route(&Route::default_via(ip(address)))
                .expect("a route");
        }
        let dataplane = enter(&node, || {
            let mut dataplane = open();
            let mut plan = plan();
            let changes = plan.take_changes();
            dataplane.apply(&plan, &changes).expect("applied rules");
            dataplane
        });
        Self {
            node,
            client,
            server,
            _dataplane: dataplane,
        }
    }

    /// Connects from a namespace, and sends a byte each way.
    fn connect(&self, from: &NetworkNamespace, family: usize) -> Connected {
        let listener = enter(&self.server, || {
            TcpListener::bind((ip(SERVER[family]), 8080)).expect("a listener")
        });
        let frontend = SocketAddr::new(ip(CLUSTER_IPS[family]), 80);
        let client = enter(from, || {
            TcpStream::connect_timeout(&frontend, TIMEOUT).expect("a connection")
        });
        let (server, _) = listener.accept().expect("the connection");
        for stream in [&client, &server] {
            stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        }
        let mut connected = Connected {
            client,
            server,
            frontend,
        };
        connected.exchange();
        connected
    }

    /// Ends the connections to a frontend. Returns their number.
    fn end(&self, resets: &mut Resets, frontend: SocketAddr, peers: Peers) -> usize {
        enter(&self.node, || {
            let mut conntrack = Conntrack::open().expect("connection tracking");
            let family = ConntrackFamily::of(frontend.ip());
            let flows = conntrack
                .flows(family, tcp::PROTOCOL, |flow| {
                    flow.original.destination == frontend
                })
                .expect("flows");
            let now = Instant::now();
            resets
                .end(&mut conntrack, &flows, peers, TableCapacity::All, now)
                .expect("deleted entries")
        })
    }

    fn has_table(&self) -> bool {
        enter(&self.node, || {
            let mut nftables = Nftables::open().expect("nftables");
            let deleted = nftables.delete_table(TableFamily::Inet, rules::TABLE);
            // The kernel hides a table of another connection, or refuses its deletion.
            !matches!(deleted, Ok(false))
        })
    }
}

impl Connected {
    fn exchange(&mut self) {
        for (from, to) in [(&self.client, &self.server), (&self.server, &self.client)] {
            let (mut from, mut to) = (from, to);
            from.write_all(b"x").expect("a byte");
            let mut received = [0];
            to.read_exact(&mut received).expect("the byte");
            assert_eq!(&received, b"x");
        }
    }
}

fn enter<T: Send>(namespace: &NetworkNamespace, work: impl FnOnce() -> T + Send) -> T {
    namespace.enter(work).expect("the namespace")
}

fn set_link(name: &str, change: &LinkChange<'_>) {
    let mut connection = Connection::open().expect("a connection");
    let link = connection
        .link_index(&name.parse().expect("a name"))
        .expect("the link");
    connection.change_link(link, change).expect("the link is set");
}

/// Joins a Pod to the node by a veth pair, with the node as its gateway.
fn join(node: &NetworkNamespace, pod: &NetworkNamespace, near: &str, addresses: [&str; 2]) {
    let far = "eth0";
    let mut at_node = Connection::open_in(node).expect("a connection");
    let (near_name, far_name) = (near.parse().expect("a name"), far.parse().expect("a name"));
    at_node
        .add_veth(&near_name, &far_name, Some(pod.as_fd()))
        .expect("a veth pair");
    enter(node, || set_link(near, &LinkChange::up()));
    enter(pod, || set_link(far, &LinkChange::up()));
    let mut at_pod = Connection::open_in(pod).expect("a connection");
    let near_link = at_node.link_index(&near_name).expect("the link");
    let far_link = at_pod.link_index(&far_name).expect("the link");
    for (gateway, address) in GATEWAYS.into_iter().zip(addresses) {
        let [gateway_net, net] = [gateway, address].map(|text| IpNet::from(ip(text)));
        at_node.add_address(near_link, gateway_net).expect("an address");
        at_pod.add_address(far_link, net).expect("an address");
        at_node
            .add_route(&Route::on_link(net, near_link))
            .expect("a route");
        at_pod
            .add_route(&Route::on_link(gateway_net, far_link))
            .expect("a route");
        at_pod
            .add_route(&Route::default_via(ip(gateway)))
            .expect("a route");
    }
}

fn plan() -> Plan {
    let mut plan = Plan::new(Settings::default());
    let service = json!({
        "metadata": {"namespace": "ns", "name": "web"},
        "spec": {"clusterIP": CLUSTER_IPS[0], "clusterIPs": CLUSTER_IPS, "ipFamilies": ["IPv4", "IPv6"],
            "ports": [{"port": 80}]},
    });
    plan.apply_service(&serde_json::from_value(service).expect("a Service"));
    for (family, address) in ["IPv4", "IPv6"].into_iter().zip(SERVER) {
        let slice = json!({
            "metadata": {"namespace": "ns", "name": format!("web-{}", family.to_lowercase()),
                "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": family, "ports": [{"name": "", "port": 8080}],
            "endpoints": [{"addresses": [address]}],
        });
        plan.apply_slice(&serde_json::from_value(slice).expect("a slice"));
    }
    plan
}

fn nftables() -> Box<dyn Dataplane + Send> {
    Box::new(NftablesDataplane::open(NftablesOptions::default()).expect("nftables"))
}

fn iptables() -> Box<dyn Dataplane + Send> {
    let options = IptablesOptions {
        variant: Some(Variant::Nft),
        ..IptablesOptions::default()
    };
    match IptablesDataplane::open(options) {
        Ok(dataplane) => Box::new(dataplane),
        Err(error) => testbed::skip_inside(&error.to_string()),
    }
}

/// A client gets the reset while it waits, and its endpoint has lost its link: nothing else can end the connection.
fn idle_clients_of_a_lost_endpoint_are_reset(open: fn() -> Box<dyn Dataplane + Send>) {
    for family in [0, 1] {
        for is_pod in [true, false] {
            let world = World::new(open);
            let mut resets = Resets::default();
            let down = LinkChange {
                up: Some(false),
                ..LinkChange::default()
            };
            let from = if is_pod { &world.client } else { &world.node };
            let mut connected = world.connect(from, family);
            enter(&world.server, || set_link("eth0", &down));
            assert_eq!(world.end(&mut resets, connected.frontend, Peers::Client), 1);
            let error = connected.client.read(&mut [0]).expect_err("a reset");
            assert_eq!(
                error.kind(),
                ErrorKind::ConnectionReset,
                "family {family}, Pod: {is_pod}"
            );
        }
    }
}

#[test]
fn idle_clients_of_a_lost_endpoint_are_reset_in_nftables_mode() {
    testbed::in_namespace(|| idle_clients_of_a_lost_endpoint_are_reset(nftables));
}

#[test]
fn idle_clients_of_a_lost_endpoint_are_reset_in_iptables_mode() {
    testbed::in_namespace(|| idle_clients_of_a_lost_endpoint_are_reset(iptables));
}

#[test]
fn both_peers_are_reset() {
    testbed::in_namespace(|| {
        let world = World::new(nftables);
        for family in [0, 1] {
            let mut resets = Resets::default();
            let mut connected = world.connect(&world.client, family);
            assert_eq!(world.end(&mut resets, connected.frontend, Peers::Both), 1);
            for stream in [&mut connected.client, &mut connected.server] {
                let error = stream.read(&mut [0]).expect_err("a reset");
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "family {family}");
            }
        }
    });
}

/// The client acknowledges the SYN of this test, and for 500 ms no further one.
#[test]
fn client_that_has_acknowledged_another_syn_is_reset() {
    testbed::in_namespace(|| {
        let world = World::new(nftables);
        let mut resets = Resets::default();
        let mut connected = world.connect(&world.client, 0);
        let client = connected.client.local_addr().expect("an address");
        let frontend = connected.frontend;
        // In the network namespace of the client, so that no rule of the node drops it.
        enter(&world.client, || {
            let socket = SegmentSocket::open().expect("a socket");
            socket.send_syn(frontend, client).expect("a segment");
        });
        assert_eq!(world.end(&mut resets, frontend, Peers::Client), 1);
        let error = connected.client.read(&mut [0]).expect_err("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn other_connections_and_later_ones_of_the_same_port_continue() {
    testbed::in_namespace(|| {
        let world = World::new(nftables);
        let mut resets = Resets::default();
        let first = world.connect(&world.client, 0);
        let port = first.client.local_addr().expect("an address").port();
        assert_eq!(world.end(&mut resets, first.frontend, Peers::Both), 1);
        let frontend = first.frontend;
        drop(first);
        let mut other = world.connect(&world.client, 0);
        other.exchange();
        let listener = enter(&world.server, || {
            TcpListener::bind((ip(SERVER[0]), 8080)).expect("a listener")
        });
        let client = enter(&world.client, || connect_from(port, frontend));
        let (server, _) = listener.accept().expect("the connection");
        for stream in [&client, &server] {
            stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        }
        let mut again = Connected {
            client,
            server,
            frontend,
        };
        again.exchange();
        again.exchange();
    });
}

#[test]
fn table_is_deleted_after_its_last_element() {
    testbed::in_namespace(|| {
        let world = World::new(nftables);
        let mut resets = Resets::default();
        assert_eq!(resets.next(), None);
        let connected = world.connect(&world.client, 0);
        world.end(&mut resets, connected.frontend, Peers::Client);
        assert!(world.has_table());
        let until = resets.next().expect("an end");
        resets.expire(until - Duration::from_millis(1));
        assert!(resets.next().is_some());
        resets.expire(until);
        assert_eq!(resets.next(), None);
        assert!(!world.has_table());
    });
}

#[test]
fn places_of_the_table_are_reserved() {
    let (mut resets, now) = (Resets::default(), Instant::now());
    let rest = LISTED_MAX - LISTED_RESERVED;
    assert_eq!(resets.free_entries(TableCapacity::Unreserved, now), rest);
    resets.listed.push_back((now + LISTED_TIME, rest));
    assert_eq!(resets.free_entries(TableCapacity::Unreserved, now), 0);
    assert_eq!(resets.free_entries(TableCapacity::All, now), LISTED_RESERVED);
    assert_eq!(
        resets.free_entries(TableCapacity::Unreserved, now + LISTED_TIME),
        rest
    );
}

#[test]
fn pass_ends_after_too_many_segments_without_room() {
    let mut unsent = UnsentSegments::default();
    for _ in 0..2 * WAITS_MAX {
        assert!(unsent.record(ErrorKind::NetworkUnreachable.into()));
    }
    for _ in 1..WAITS_MAX {
        assert!(unsent.record(ErrorKind::WouldBlock.into()));
    }
    assert!(!unsent.record(ErrorKind::WouldBlock.into()));
    assert_eq!(unsent.failed, 3 * WAITS_MAX);
    let first = unsent.error.expect("the first error");
    assert_eq!(first.kind(), ErrorKind::NetworkUnreachable);
}

/// Connects from a port of the client.
fn connect_from(port: u16, frontend: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, ipproto, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::TCP)).expect("a socket");
    bind(&socket, &SocketAddr::new(ip(CLIENT[0]), port)).expect("the port");
    connect(&socket, &frontend).expect("a connection");
    TcpStream::from(socket)
}
