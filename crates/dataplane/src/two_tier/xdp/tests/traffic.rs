//! Packets of a client through the program of one node to another one, which answers.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use ipnet::Ipv4Net;
use netlink::bpf::{Assembler, R0, XdpAction};
use netlink::nftables::Nftables;
use netlink::route::{LinkChange, Master, NetworkNamespace, Route};
use plan::Family;

use super::super::super::slots::Slots;
use super::super::super::{links, rules};
use super::*;

const LINK: &str = "eth0";
const NODES: [&str; 2] = ["node-a", "node-b"];
const CLIENT: [u8; 4] = [10, 9, 0, 3];
const PACKETS: u64 = 20;
/// Upper bound of waiting for a packet.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A host on the bridge of the test.
struct Host {
    namespace: NetworkNamespace,
    address: Ipv4Addr,
    ethernet: [u8; 6],
    /// Lets the port of the bridge take frames of a program.
    _port: XdpAttachment,
}

impl Host {
    fn start(bridge: LinkIndex, number: u8) -> Self {
        let mut pass = Assembler::new();
        pass.set(R0, XdpAction::Pass as i32);
        pass.exit();
        let namespace = NetworkNamespace::create().unwrap();
        let port: LinkName = format!("port{number}").parse().unwrap();
        let mut connection = Connection::open().unwrap();
        let name: LinkName = LINK.parse().unwrap();
        connection
            .add_veth(&port, &name, Some(namespace.as_fd()))
            .unwrap();
        let port = connection.link_index(&port).unwrap();
        let change = LinkChange {
            master: Some(Master::Of(bridge)),
            ..LinkChange::up()
        };
        connection.change_link(port, &change).unwrap();
        let attached =
            XdpProgram::load("pass", &pass.finish().unwrap()).and_then(|program| program.attach(port));
        let attached = match attached {
            Ok(attached) => attached,
            Err(error @ (BpfError::NotPermitted { .. } | BpfError::Unsupported { .. })) => {
                testbed::skip_inside(&error.to_string())
            }
            Err(error) => panic!("{error}"),
        };
        let mut inside = Connection::open_in(&namespace).unwrap();
        let address = Ipv4Addr::new(10, 9, 0, number);
        let link = inside.link(&name).unwrap().unwrap();
        let network = Ipv4Net::new(address, 24).unwrap();
        inside.add_address(link.index, network.into()).unwrap();
        let loopback = inside.link_index(&"lo".parse().unwrap()).unwrap();
        for index in [link.index, loopback] {
            inside.change_link(index, &LinkChange::up()).unwrap();
        }
        Self {
            namespace,
            address,
            ethernet: link.ethernet.unwrap(),
            _port: attached,
        }
    }

    fn connection(&self) -> Connection {
        Connection::open_in(&self.namespace).unwrap()
    }

    /// Opens a UDP socket. It sends no checksums: the sending end of a veth link leaves them to the receiving one, and the
    /// program would send a packet without a valid one.
    fn socket(&self, address: SocketAddr) -> UdpSocket {
        let socket = self
            .namespace
            .enter(|| UdpSocket::bind(address))
            .unwrap()
            .unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        let on: libc::c_int = 1;
        // SAFETY: the pointer is valid for the length that is given.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_NO_CHECK,
                (&raw const on).cast(),
                size_of_val(&on) as libc::socklen_t,
            )
        };
        assert_eq!(result, 0);
        socket
    }
}

/// State in which node-b serves the frontend `203.0.113.5:80` of UDP.
fn served_by_b(peers: &Peers) -> State {
    let mut state = State::new(Family::V4, peers, &PodDetection::default());
    let key = FrontendKey {
        protocol: libc::IPPROTO_UDP as u8,
        ..key(80)
    };
    state.frontends[HashInput::Connection as usize].insert(key, 4);
    let mut slots = Slots::default();
    slots.update(&Weights::from([(Arc::from(NODES[1]), 1)]), NODES[0]);
    let entries = slots.at_level(0);
    let entries = entries.filter_map(|(index, node)| Some(((4, index), peers.get(node)?.number)));
    state.choices[0] = entries.collect();
    state
}

#[test]
fn serving_node_gets_the_packets_of_the_program() {
    testbed::in_namespace(|| {
        let mut connection = Connection::open().unwrap();
        let bridge: LinkName = "bridge".parse().unwrap();
        connection.add_bridge(&bridge).unwrap();
        let bridge = connection.link_index(&bridge).unwrap();
        connection.change_link(bridge, &LinkChange::up()).unwrap();
        let [a, b, client] = [1, 2, CLIENT[3]].map(|number| Host::start(bridge, number));
        let addresses: NodeAddresses = NODES
            .into_iter()
            .zip([&a, &b])
            .map(|(name, host)| (Arc::from(name), vec![host.address.into()]))
            .collect();
        for (name, host) in NODES.into_iter().zip([&a, &b]) {
            let mut peers = Peers::default();
            peers.update(&addresses, name, host.address.into());
            let state = served_by_b(&peers);
            let links = links::ensure(
                &mut host.connection(),
                name,
                host.address.into(),
                &peers,
                &[Family::V4],
            );
            let links = match links {
                Err(error) if error.to_string().contains("not supported") => {
                    testbed::skip_inside(&format!("no VXLAN links: {error}"))
                }
                links => links.unwrap(),
            };
            let table = rules::table(Family::V4, &links, &state, true);
            let mut nftables = host.namespace.enter(Nftables::open).unwrap().unwrap();
            nftables.commit(table).unwrap();
        }
        let mut of_b = b.connection();
        let loopback = of_b.link_index(&"lo".parse().unwrap()).unwrap();
        of_b.add_address(loopback, "203.0.113.5/32".parse().unwrap())
            .unwrap();
        let route = Route::via("203.0.113.5/32".parse().unwrap(), a.address.into());
        client.connection().add_route(&route).unwrap();
        let mut of_a = a.connection();
        let link = of_a.link_index(&LINK.parse().unwrap()).unwrap();
        of_a.replace_neighbour(link, b.address.into(), b.ethernet)
            .unwrap();

        let mut peers = Peers::default();
        peers.update(&addresses, NODES[0], a.address.into());
        let state = served_by_b(&peers);
        let mut xdp = Xdp::new(LINK.parse().unwrap());
        let apply = || xdp.apply(&mut of_a, &state, NODES[0], a.address.into(), &peers);
        a.namespace.enter(apply).unwrap();
        assert_eq!(*xdp.xdp_state(), XdpState::Forwards { nodes: 1 });

        let service: SocketAddr = "203.0.113.5:80".parse().unwrap();
        let server = b.socket(service);
        let mut received = [0; 8];
        for packet in 0..PACKETS {
            let from = client.socket((CLIENT, 0).into());
            from.send_to(&packet.to_be_bytes(), service).unwrap();
            let (bytes, source) = server.recv_from(&mut received).unwrap();
            assert_eq!((bytes, received), (8, packet.to_be_bytes()));
            assert_eq!(
                source,
                from.local_addr().unwrap(),
                "the address of the client is kept"
            );
            server.send_to(b"answer", source).unwrap();
            assert_eq!(from.recv_from(&mut received).unwrap(), (6, service));
        }
        assert_eq!(xdp.forwarded_packets(), PACKETS);
    });
}
