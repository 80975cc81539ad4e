use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::addresses::AddressPool;
use super::*;

fn pool() -> AddressPool {
    let ranges = ["10.244.1.0/24", "fd00:244:1::/64"];
    AddressPool::new(ranges.iter().map(|range| range.parse().unwrap()).collect()).unwrap()
}

/// Node with two Pods.
struct NodeWithTwoPods {
    pool: AddressPool,
    gateways: Vec<IpAddr>,
    a: Vec<IpAddr>,
    b: Vec<IpAddr>,
    pod_a: NetworkNamespace,
    pod_b: NetworkNamespace,
}

/// Prepares the calling thread's namespace as a node with two Pods.
fn node_with_two_pods() -> NodeWithTwoPods {
    prepare_node();
    let mut pool = pool();
    let gateways = pool.gateways();
    let (a, b) = (pool.allocate().unwrap(), pool.allocate().unwrap());
    let pod_a = create_namespace(&link_name("a").unwrap(), &a, &gateways).unwrap();
    let pod_b = create_namespace(&link_name("b").unwrap(), &b, &gateways).unwrap();
    NodeWithTwoPods {
        pool,
        gateways,
        a,
        b,
        pod_a,
        pod_b,
    }
}

/// Connects with `from` to a listener in `to`. Returns the client address that the listener sees.
fn source_seen_by(
    to: &NetworkNamespace,
    at: IpAddr,
    from: impl FnOnce(std::net::SocketAddr) -> TcpStream,
) -> IpAddr {
    let listener = to.enter(|| TcpListener::bind((at, 0))).unwrap().unwrap();
    let mut client = from(listener.local_addr().unwrap());
    let (mut server, peer) = listener.accept().unwrap();
    server.write_all(b"x").unwrap();
    client.read_exact(&mut [0]).unwrap();
    peer.ip()
}

fn dial(to: std::net::SocketAddr) -> TcpStream {
    TcpStream::connect_timeout(&to, Duration::from_secs(5)).unwrap()
}

#[test]
fn link_names_are_derived_from_uids() {
    let name = link_name("9c8d-1").unwrap();
    assert_eq!(name, link_name("9c8d-1").unwrap());
    assert_ne!(name, link_name("9c8d-2").unwrap());
    assert!(is_pod_link(name.as_str()));
    assert!(!is_pod_link("podman0") && !is_pod_link("eth0") && !is_pod_link("podxyzxyzxyzxyz"));
}

#[test]
fn node_and_pods_reach_each_other_in_both_families() {
    testbed::in_namespace(|| {
        let NodeWithTwoPods {
            gateways,
            a,
            b,
            pod_a,
            pod_b,
            ..
        } = node_with_two_pods();
        for family in 0..2 {
            assert_eq!(
                source_seen_by(&pod_a, a[family], dial),
                gateways[family],
                "node to pod"
            );
            let from_a = |to| pod_a.enter(|| dial(to)).unwrap();
            assert_eq!(source_seen_by(&pod_b, b[family], from_a), a[family], "pod to pod");
            let node = NetworkNamespace::current().unwrap();
            assert_eq!(
                source_seen_by(&node, gateways[family], from_a),
                a[family],
                "pod to node"
            );
        }
    });
}

#[test]
fn disconnect_removes_links_and_routes() {
    testbed::in_namespace(|| {
        let mut pool = pool();
        let gateways = pool.gateways();
        let addresses = pool.allocate().unwrap();
        let before = Connection::open().unwrap().links().unwrap();
        let routes = Connection::open().unwrap().routes().unwrap();
        let link = link_name("a").unwrap();
        // The second call simulates a restart after the agent was killed.
        drop(create_namespace(&link, &addresses, &gateways).unwrap());
        drop(create_namespace(&link, &addresses, &gateways).unwrap());
        disconnect(&link).unwrap();
        disconnect(&link).unwrap();
        assert_eq!(Connection::open().unwrap().links().unwrap(), before);
        assert_eq!(Connection::open().unwrap().routes().unwrap(), routes);
    });
}

#[test]
fn deletes_only_orphaned_pod_links() {
    testbed::in_namespace(|| {
        let mut node = Connection::open().unwrap();
        let (known, unknown) = (link_name("known").unwrap(), link_name("unknown").unwrap());
        let far = |name: &str| name.parse::<LinkName>().unwrap();
        node.add_veth(&known, &far("f1"), None).unwrap();
        node.add_veth(&unknown, &far("f2"), None).unwrap();
        node.add_veth(&far("podman0"), &far("f3"), None).unwrap();
        let deleted = delete_orphaned_links(std::slice::from_ref(&known)).unwrap();
        assert_eq!(deleted, [unknown.to_string()]);
        assert!(node.link(&known).unwrap().is_some());
        assert!(node.link(&far("podman0")).unwrap().is_some());
    });
}

#[test]
fn node_addresses_exclude_pod_links() {
    testbed::in_namespace(|| {
        let mut node = Connection::open().unwrap();
        for (index, name) in ["first", "second"].into_iter().enumerate() {
            let name: LinkName = name.parse().unwrap();
            node.add_veth(&name, &format!("far{index}").parse().unwrap(), None)
                .unwrap();
            let link = node.link_index(&name).unwrap();
            node.change_link(link, &LinkChange::up()).unwrap();
            let far = node.link_index(&format!("far{index}").parse().unwrap()).unwrap();
            node.change_link(far, &LinkChange::up()).unwrap();
            node.add_address(link, format!("192.0.{index}.5/24").parse().unwrap())
                .unwrap();
            node.add_address(link, format!("2001:db8:{index}::5/64").parse().unwrap())
                .unwrap();
        }
        node.add_route(&Route::default_via("192.0.1.1".parse().unwrap()))
            .unwrap();
        let mut pool = pool();
        let addresses = pool.allocate().unwrap();
        let _pod = create_namespace(&link_name("a").unwrap(), &addresses, &pool.gateways()).unwrap();
        let found: Vec<String> = node_addresses()
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            found,
            [
                "192.0.1.5",
                "2001:db8:0::5".parse::<IpAddr>().unwrap().to_string().as_str()
            ]
        );
    });
}

/// Sends a datagram with a forged source address: `IP_TRANSPARENT` lets root bind any address.
fn send_as(from: IpAddr, to: std::net::SocketAddr) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    let socket = rustix::net::socket(
        if from.is_ipv4() {
            rustix::net::AddressFamily::INET
        } else {
            rustix::net::AddressFamily::INET6
        },
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    let (level, option) = match from {
        IpAddr::V4(_) => (libc::SOL_IP, libc::IP_TRANSPARENT),
        IpAddr::V6(_) => (libc::SOL_IPV6, libc::IPV6_TRANSPARENT),
    };
    let on: libc::c_int = 1;
    // SAFETY: the value and its length live through the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    let socket = std::net::UdpSocket::from(socket);
    rustix::net::bind(&socket, &std::net::SocketAddr::new(from, 0))?;
    socket.send_to(b"spoofed?", to).map(drop)
}

#[test]
fn forged_source_addresses_are_dropped() {
    testbed::in_namespace(|| {
        let mut node = node_with_two_pods();
        for family in 0..2 {
            let listener = node
                .pod_b
                .enter(|| std::net::UdpSocket::bind((node.b[family], 0)))
                .unwrap()
                .unwrap();
            let to = listener.local_addr().unwrap();
            let elsewhere: IpAddr = match family {
                0 => [198, 51, 100, 7].into(),
                _ => "2001:db8::7".parse().unwrap(),
            };
            let neighbour = node.pool.allocate().unwrap()[family];
            let pod = &node.pod_a;
            for foreign in [elsewhere, neighbour, node.gateways[family], node.b[family]] {
                pod.enter(|| send_as(foreign, to)).unwrap().unwrap();
            }
            pod.enter(|| send_as(node.a[family], to)).unwrap().unwrap();
            listener.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            // Links keep the order of packets, so a forged one would arrive first.
            let mut buffer = [0; 16];
            let (_, first) = listener.recv_from(&mut buffer).unwrap();
            assert_eq!(first.ip(), node.a[family]);
        }
    });
}

#[test]
fn links_of_an_older_agent_get_validation() {
    testbed::in_namespace(|| {
        prepare_node();
        let mut pool = pool();
        let name = link_name("a").unwrap();
        let _pod = create_namespace(&name, &pool.allocate().unwrap(), &pool.gateways()).unwrap();
        let mut node = Connection::open().unwrap();
        let link = node.link(&name).unwrap().unwrap();
        assert_eq!(link.group, source_validation::LINK_GROUP);
        let change = LinkChange {
            group: Some(0),
            ..LinkChange::default()
        };
        node.change_link(link.index, &change).unwrap();
        validate_existing_links().unwrap();
        assert_eq!(
            node.link(&name).unwrap().unwrap().group,
            source_validation::LINK_GROUP
        );
        assert!(source_validation::remove().unwrap() && !source_validation::remove().unwrap());
    });
}
