use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use netlink::nftables::TableFamily;
use netlink::route::NetworkNamespace;
use serde_json::json;

use super::*;
use crate::network::addresses::AddressPool;
use crate::network::{create_namespace, link_name, prepare_node, route_loopback, source_validation};

const TIMEOUT: Duration = Duration::from_secs(5);

fn pod(ports: serde_json::Value) -> Pod {
    serde_json::from_value(json!({"spec": {"containers": [{"name": "a", "ports": ports}]}})).unwrap()
}

fn addresses() -> Vec<IpAddr> {
    vec!["10.244.1.2".parse().unwrap(), "fd00:244:1::2".parse().unwrap()]
}

fn tcp(host_ip: Option<&str>, host_port: u16, target: SocketAddr) -> HostPort {
    HostPort {
        host_ip: host_ip.map(|ip| ip.parse().unwrap()),
        host_port,
        protocol: Protocol::Tcp,
        target,
    }
}

#[test]
fn host_port_without_host_ip_has_all_families() {
    let pod = pod(json!([{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}]));
    let expected = [
        tcp(None, 8080, "10.244.1.2:80".parse().unwrap()),
        tcp(None, 8080, "[fd00:244:1::2]:80".parse().unwrap()),
    ];
    assert_eq!(HostPort::of_pod(&pod, &addresses()), expected);
}

#[test]
fn host_ip_limits_a_port_to_its_family() {
    let of = |ip: &str| {
        let port = json!([{"containerPort": 80, "hostPort": 8080, "hostIP": ip}]);
        HostPort::of_pod(&pod(port), &addresses())
    };
    let target = |index: usize| SocketAddr::new(addresses()[index], 80);
    assert_eq!(of("192.0.2.1"), [tcp(Some("192.0.2.1"), 8080, target(0))]);
    assert_eq!(of("0.0.0.0"), [tcp(None, 8080, target(0))]);
    assert_eq!(of("::"), [tcp(Some("::"), 8080, target(1))]);
    assert!(of("invalid").is_empty());
}

#[test]
fn ports_collide_at_the_same_address_or_at_all_addresses() {
    let target = "10.244.1.2:80".parse().unwrap();
    let (any, one, other) = (
        tcp(None, 80, target),
        tcp(Some("192.0.2.1"), 80, target),
        tcp(Some("192.0.2.2"), 80, target),
    );
    assert!(any.collides(&one) && one.collides(&any) && one.collides(&one));
    assert!(!one.collides(&other) && !any.collides(&tcp(None, 81, target)));
    let target = "[fd00:244:1::2]:80".parse().unwrap();
    let without = tcp(None, 80, target);
    assert!(!any.collides(&without));
    let (unspecified, named) = (tcp(Some("::"), 80, target), tcp(Some("2001:db8::1"), 80, target));
    assert!(unspecified.collides(&unspecified) && unspecified.collides(&without));
    assert!(!unspecified.collides(&named) && !named.collides(&unspecified));
}

#[test]
fn ports_at_unspecified_addresses_of_both_families_serve_one_pod() {
    let ports = json!([
        {"containerPort": 80, "hostPort": 8080, "hostIP": "0.0.0.0"},
        {"containerPort": 80, "hostPort": 8080, "hostIP": "::"},
    ]);
    let expected = [
        tcp(None, 8080, SocketAddr::new(addresses()[0], 80)),
        tcp(Some("::"), 8080, SocketAddr::new(addresses()[1], 80)),
    ];
    assert_eq!(HostPort::of_pod(&pod(ports), &addresses()), expected);
    // A node with one family serves the ports of this family.
    let ipv6_only = &addresses()[1..];
    let at = |ip: &str| {
        let port = json!([{"containerPort": 80, "hostPort": 8080, "hostIP": ip}]);
        HostPort::of_pod(&pod(port), ipv6_only).len()
    };
    assert_eq!((at(""), at("::"), at("0.0.0.0")), (1, 1, 0));
}

#[test]
fn pods_with_the_same_port_of_the_node_collide() {
    let with = |ip: &str, protocol: &str, port: u16| {
        pod(json!([{"containerPort": port, "hostPort": port, "hostIP": ip, "protocol": protocol}]))
    };
    let first = with("192.0.2.1", "TCP", 80);
    for (other, expected) in [
        (with("", "TCP", 80), true),
        (with("0.0.0.0", "TCP", 80), true),
        (with("::", "TCP", 80), false),
        (with("2001:db8::1", "TCP", 80), false),
        (with("192.0.2.1", "TCP", 80), true),
        (with("192.0.2.2", "TCP", 80), false),
        (with("", "UDP", 80), false),
        (with("", "TCP", 81), false),
        (pod(json!([{"containerPort": 80}])), false),
    ] {
        assert_eq!(admission::collide(&first, &other), expected, "{other:?}");
        assert_eq!(admission::collide(&other, &first), expected, "{other:?}");
    }
}

/// Node with two Pods; the host port 8080 leads to port 80 of the first one.
struct Fixture {
    host_ports: HostPorts,
    gateways: Vec<IpAddr>,
    first: NetworkNamespace,
    second: NetworkNamespace,
}

impl Fixture {
    fn start() -> Self {
        prepare_node();
        let loopback = "lo".parse().unwrap();
        let mut node = netlink::route::Connection::open().unwrap();
        let link = node.link_index(&loopback).unwrap();
        node.change_link(link, &netlink::route::LinkChange::up()).unwrap();
        let ranges = ["10.244.1.0/24", "fd00:244:1::/64"].map(|range| range.parse().unwrap());
        let mut pool = AddressPool::new(ranges.to_vec()).unwrap();
        let gateways = pool.gateways();
        let (a, b) = (pool.allocate().unwrap(), pool.allocate().unwrap());
        let first = create_namespace(&link_name("a").unwrap(), &a, &gateways).unwrap();
        let second = create_namespace(&link_name("b").unwrap(), &b, &gateways).unwrap();
        let host_ports = HostPorts::default();
        let ports = json!([
            {"containerPort": 80, "hostPort": 8080},
            {"containerPort": 53, "hostPort": 5353, "protocol": "UDP"},
        ]);
        route_loopback(&link_name("a").unwrap());
        host_ports.add("a", HostPort::of_pod(&pod(ports), &a)).unwrap();
        Self {
            host_ports,
            gateways,
            first,
            second,
        }
    }

    /// Returns true if a client receives the byte of a server on port 80 of the first Pod.
    fn connects(&self, server: &TcpListener, client: impl FnOnce() -> std::io::Result<TcpStream>) -> bool {
        let Ok(mut client) = client() else {
            return false;
        };
        let (mut accepted, _) = server.accept().unwrap();
        accepted.write_all(b"x").unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        client.read_exact(&mut [0]).is_ok()
    }
}

fn dial(address: IpAddr) -> std::io::Result<TcpStream> {
    TcpStream::connect_timeout(&SocketAddr::new(address, 8080), TIMEOUT)
}

#[test]
fn node_and_pods_reach_the_pod_at_host_ports() {
    testbed::in_namespace(|| {
        let fixture = Fixture::start();
        for gateway in &fixture.gateways {
            let any: IpAddr = match gateway {
                IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
            };
            let server = fixture
                .first
                .enter(|| TcpListener::bind((any, 80)))
                .unwrap()
                .unwrap();
            assert!(fixture.connects(&server, || dial(*gateway)), "node to {gateway}");
            let from_second = || fixture.second.enter(|| dial(*gateway)).unwrap();
            assert!(fixture.connects(&server, from_second), "Pod to {gateway}");
            let from_first = || fixture.first.enter(|| dial(*gateway)).unwrap();
            assert!(
                fixture.connects(&server, from_first),
                "Pod to itself at {gateway}"
            );
            if gateway.is_ipv4() {
                let loopback = || dial([127, 0, 0, 1].into());
                assert!(fixture.connects(&server, loopback), "node to 127.0.0.1");
            }
        }
        fixture.host_ports.remove("a").unwrap();
        for gateway in &fixture.gateways {
            assert!(dial(*gateway).is_err(), "{gateway} after the end of the Pod");
        }
        assert!(!remove_table().unwrap());
    });
}

#[test]
fn host_ip_is_served_at_addresses_of_the_node_only() {
    testbed::in_namespace(|| {
        let fixture = Fixture::start();
        let server = fixture
            .first
            .enter(|| TcpListener::bind("0.0.0.0:80"))
            .unwrap()
            .unwrap();
        let of_node = *fixture.gateways.iter().find(|ip| ip.is_ipv4()).unwrap();
        let foreign: IpAddr = "192.0.2.1".parse().unwrap();
        let target = SocketAddr::new(addresses()[0], 80);
        for host_ip in [of_node, foreign] {
            let port = HostPort {
                host_ip: Some(host_ip),
                host_port: 8080,
                protocol: Protocol::Tcp,
                target,
            };
            fixture.host_ports.add("a", vec![port]).unwrap();
            let from_second = || fixture.second.enter(|| dial(host_ip)).unwrap();
            assert_eq!(
                fixture.connects(&server, from_second),
                host_ip == of_node,
                "{host_ip}"
            );
        }
    });
}

#[test]
fn port_at_a_named_address_precedes_one_at_the_unspecified_address() {
    testbed::in_namespace(|| {
        let fixture = Fixture::start();
        let gateway = *fixture.gateways.iter().find(|ip| ip.is_ipv6()).unwrap();
        let (of_first, of_second) = ("[fd00:244:1::2]:80", "[fd00:244:1::3]:80");
        let unspecified = tcp(Some("::"), 8080, of_first.parse().unwrap());
        let named = HostPort {
            host_ip: Some(gateway),
            ..tcp(None, 8080, of_second.parse().unwrap())
        };
        fixture.host_ports.add("a", vec![unspecified]).unwrap();
        fixture.host_ports.add("b", vec![named]).unwrap();
        let listen = || TcpListener::bind("[::]:80").unwrap();
        let second = fixture.second.enter(listen).unwrap();
        assert!(fixture.connects(&second, || dial(gateway)), "the named address");
        fixture.host_ports.remove("b").unwrap();
        drop(second);
        let first = fixture.first.enter(listen).unwrap();
        assert!(
            fixture.connects(&first, || dial(gateway)),
            "the unspecified address"
        );
    });
}

#[test]
fn host_ports_carry_datagrams() {
    testbed::in_namespace(|| {
        let fixture = Fixture::start();
        let server = fixture
            .first
            .enter(|| UdpSocket::bind("[::]:53"))
            .unwrap()
            .unwrap();
        server.set_read_timeout(Some(TIMEOUT)).unwrap();
        for gateway in &fixture.gateways {
            let client = fixture
                .second
                .enter(|| {
                    let any = if gateway.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                    let socket = UdpSocket::bind(any)?;
                    socket.connect((*gateway, 5353))?;
                    socket.send(b"query").map(|_| socket)
                })
                .unwrap()
                .unwrap();
            let mut buffer = [0; 16];
            let (_, from) = server.recv_from(&mut buffer).unwrap();
            server.send_to(b"reply", from).unwrap();
            client.set_read_timeout(Some(TIMEOUT)).unwrap();
            assert_eq!(client.recv(&mut buffer).unwrap(), 5);
        }
    });
}

#[test]
fn rules_that_another_program_deletes_are_restored() {
    testbed::in_namespace(|| {
        let fixture = Fixture::start();
        let host_ports = Arc::new(fixture.host_ports);
        watch(&host_ports).unwrap();
        let mut other = Nftables::open().unwrap();
        for table in [TABLE, source_validation::TABLE] {
            assert!(other.delete_table(TableFamily::Inet, table).unwrap(), "{table}");
            let deadline = Instant::now() + TIMEOUT;
            while other.table(table).unwrap().is_none() {
                assert!(Instant::now() < deadline, "{table} is not restored");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        host_ports.remove("a").unwrap();
        assert!(other.table(TABLE).unwrap().is_none());
    });
}

#[test]
fn rejects_a_host_port_of_another_pod() {
    testbed::in_namespace(|| {
        let fixture = Fixture::start();
        let ports = HostPort::of_pod(
            &pod(json!([{"containerPort": 80, "hostPort": 8080}])),
            &addresses(),
        );
        let error = fixture.host_ports.add("b", ports.clone()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "host port TCP 8080 is in use by the Pod with UID a"
        );
        fixture.host_ports.remove("a").unwrap();
        fixture.host_ports.add("b", ports).unwrap();
    });
}

#[test]
fn pods_do_not_reach_loopback_addresses_of_the_node() {
    testbed::in_namespace(|| {
        let fixture = Fixture::start();
        let server = UdpSocket::bind("127.0.0.1:9000").unwrap();
        server.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let sent = fixture.first.enter(|| {
            let loopback = "lo".parse().unwrap();
            let mut pod = netlink::route::Connection::open().unwrap();
            let link = pod.link_index(&loopback).unwrap();
            let address = "127.0.0.1/8".parse().unwrap();
            pod.delete_address(link, address).unwrap();
            std::fs::write("/proc/sys/net/ipv4/conf/eth0/route_localnet", "1").unwrap();
            let eth0 = pod.link_index(&"eth0".parse().unwrap()).unwrap();
            let destination = "127.0.0.1/32".parse().unwrap();
            let route = netlink::route::Route::on_link(destination, eth0);
            pod.replace_route(&route).unwrap();
            UdpSocket::bind("10.244.1.2:0")?.send_to(b"x", "127.0.0.1:9000")
        });
        // The Pod's kernel may refuse the packet already.
        sent.unwrap().ok();
        assert!(server.recv_from(&mut [0; 8]).is_err());
    });
}
