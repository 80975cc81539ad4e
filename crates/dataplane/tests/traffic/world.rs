//! A node with two Pods, a remote Pod and an external client: network namespaces, joined to the node by veth pairs.
//! Pods reply with their name and the address of the client.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use api::object::Protocol;
use ipnet::IpNet;
use netlink::route::{Connection, LinkChange, LinkIndex, LinkName, NetworkNamespace, Route};
use plan::InterfaceName;
use socket2::{Domain, Socket, Type};

/// Ports of the Pods.
pub(crate) const POD_PORTS: [u16; 2] = [8080, 8081];

const GATEWAYS: [&str; 2] = ["10.244.1.1", "fd00:244:1::1"];
const NODE: [&str; 2] = ["172.30.0.11", "fd00:30::11"];

/// Time limit for expected replies.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// Wait for replies that must not come.
const NO_RESPONSE_TIMEOUT: Duration = Duration::from_millis(120);

/// A host that connects.
pub(crate) struct Member {
    pub name: &'static str,
    pub addresses: [IpAddr; 2],
    namespace: NetworkNamespace,
}

pub(crate) struct World {
    /// The node first, then the external client, then the Pods.
    pub members: Vec<Member>,
}

/// Result of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A Pod, by its address, received the connection on this port and saw this source.
    Answered {
        by: SocketAddr,
        source: IpAddr,
    },
    Refused,
    NoResponse,
}

/// Result of an echo request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Echo {
    /// Reply from an address.
    Reply {
        from: IpAddr,
    },
    Refused,
    NoResponse,
}

impl World {
    pub(crate) fn new() -> Self {
        let mut members = vec![Member {
            name: "node",
            addresses: addresses(NODE),
            namespace: NetworkNamespace::create().unwrap(),
        }];
        set_node(&members[0]);
        for (name, pair) in [
            ("outside", ["172.30.0.100", "fd00:30::100"]),
            ("pod-a", ["10.244.1.2", "fd00:244:1::2"]),
            ("pod-b", ["10.244.1.3", "fd00:244:1::3"]),
            ("remote", ["10.244.2.2", "fd00:244:2::2"]),
        ] {
            let member = Member {
                name,
                addresses: addresses(pair),
                namespace: NetworkNamespace::create().unwrap(),
            };
            let near = if name == "outside" {
                addresses(NODE)
            } else {
                addresses(GATEWAYS)
            };
            join(&members[0], &member, near);
            if name != "outside" {
                member.serve();
            }
            members.push(member);
        }
        // Packets of the node itself to Service addresses need a route.
        let mut node = Connection::open_in(&members[0].namespace).unwrap();
        for gateway in members[1].addresses {
            node.add_route(&Route::default_via(gateway)).unwrap();
        }
        Self { members }
    }

    pub(crate) fn node(&self) -> &Member {
        &self.members[0]
    }

    /// Returns the addresses of the node.
    pub(crate) fn node_addresses() -> Vec<IpAddr> {
        [addresses(NODE), addresses(GATEWAYS)].concat()
    }
}

impl Member {
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.namespace.enter(work).unwrap()
    }

    /// Returns the node's interface to the member; none for the node itself.
    pub(crate) fn near_interface(&self) -> Option<InterfaceName> {
        (self.name != "node").then(|| format!("to-{}", self.name).parse().unwrap())
    }

    /// Returns the source address of connections to `to`.
    pub(crate) fn source_towards(&self, to: IpAddr) -> IpAddr {
        self.enter(|| {
            let socket = UdpSocket::bind((unspecified(to), 0)).unwrap();
            socket.connect((to, 9)).unwrap();
            socket.local_addr().unwrap().ip()
        })
    }

    /// Opens the socket of a client. `port` is the port of datagrams, which differs each time to avoid earlier flows;
    /// TCP has a free one.
    pub(crate) fn open(&self, protocol: Protocol, to: IpAddr, port: u16) -> Client {
        let (kind, port) = match protocol {
            Protocol::Tcp => (Type::STREAM, 0),
            Protocol::Udp | Protocol::Sctp => (Type::DGRAM, port),
        };
        let own = SocketAddr::new(unspecified(to), port);
        let socket = self.enter(|| {
            let socket = Socket::new(Domain::for_address(own), kind, None).unwrap();
            socket.bind(&own.into()).unwrap();
            socket
        });
        Client { protocol, socket }
    }

    /// Sends an echo request and reads the reply.
    pub(crate) fn ping(&self, to: IpAddr, is_answer_due: bool) -> Echo {
        let timeout = if is_answer_due {
            REPLY_TIMEOUT
        } else {
            NO_RESPONSE_TIMEOUT
        };
        match self.enter(|| ask_echo(to, timeout)) {
            Ok(from) => Echo::Reply { from },
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Echo::Refused,
            Err(_) => Echo::NoResponse,
        }
    }

    fn serve(&self) {
        for address in self.addresses {
            for port in POD_PORTS {
                let at = SocketAddr::new(address, port);
                let (listener, socket) =
                    self.enter(|| (TcpListener::bind(at).unwrap(), UdpSocket::bind(at).unwrap()));
                let answer = move |peer: SocketAddr| format!("{at} {}", peer.ip());
                thread::spawn(move || {
                    while let Ok((mut stream, peer)) = listener.accept() {
                        // A client that has already disconnected reports the failure itself.
                        stream.write_all(answer(peer).as_bytes()).ok();
                    }
                });
                thread::spawn(move || {
                    let mut buffer = [0; 16];
                    while let Ok((_, peer)) = socket.recv_from(&mut buffer) {
                        socket.send_to(answer(peer).as_bytes(), peer).ok();
                    }
                });
            }
        }
    }
}

/// Socket of a client before its first packet.
pub(crate) struct Client {
    protocol: Protocol,
    socket: Socket,
}

impl Client {
    /// Returns the port of the client.
    pub(crate) fn port(&self) -> u16 {
        let own = self.socket.local_addr().unwrap();
        own.as_socket().expect("an IP address").port()
    }

    /// Connects and reads the reply.
    pub(crate) fn request(self, to: SocketAddr, is_answer_due: bool) -> Outcome {
        let timeout = if is_answer_due {
            REPLY_TIMEOUT
        } else {
            NO_RESPONSE_TIMEOUT
        };
        let answer = match self.protocol {
            Protocol::Tcp => ask_tcp(self.socket, to, timeout),
            Protocol::Udp | Protocol::Sctp => ask_udp(&self.socket.into(), to, timeout),
        };
        match answer {
            Ok(text) => {
                let (by, source) = text.split_once(' ').expect("two words");
                Outcome::Answered {
                    by: by.parse().unwrap(),
                    source: source.parse().unwrap(),
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Outcome::Refused,
            Err(_) => Outcome::NoResponse,
        }
    }
}

fn ask_tcp(socket: Socket, to: SocketAddr, timeout: Duration) -> std::io::Result<String> {
    socket.connect_timeout(&to.into(), timeout)?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(timeout))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

fn ask_udp(socket: &UdpSocket, to: SocketAddr, timeout: Duration) -> std::io::Result<String> {
    socket.connect(to)?;
    socket.set_read_timeout(Some(timeout))?;
    match socket.send(b"?") {
        // A packet that is rejected or dropped on output causes this error; a rejection is reported by ICMP, too.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
        sent => {
            sent?;
        }
    }
    let mut buffer = [0; 128];
    let bytes = socket.recv(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..bytes]).into_owned())
}

/// The kernel sets identifier and checksum of the request, and passes only replies with this identifier on.
fn ask_echo(to: IpAddr, timeout: Duration) -> std::io::Result<IpAddr> {
    let (domain, protocol, request) = match to {
        IpAddr::V4(_) => (socket2::Domain::IPV4, socket2::Protocol::ICMPV4, 8),
        IpAddr::V6(_) => (socket2::Domain::IPV6, socket2::Protocol::ICMPV6, 128),
    };
    let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, Some(protocol))?;
    socket.connect(&SocketAddr::new(to, 0).into())?;
    socket.set_read_timeout(Some(timeout))?;
    match socket.send(&[request, 0, 0, 0, 0, 0, 0, 1, b'?']) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
        sent => {
            sent?;
        }
    }
    let mut buffer = [0; 64];
    let (_, from) = UdpSocket::from(socket).recv_from(&mut buffer)?;
    Ok(from.ip())
}

fn set_node(node: &Member) {
    node.enter(|| {
        configure_kernel();
        testbed::write_sysctl("net.ipv4.ip_forward", "1").unwrap();
        testbed::write_sysctl("net.ipv6.conf.all.forwarding", "1").unwrap();
        // ICMP errors must not be rate limited.
        testbed::write_sysctl("net.ipv4.icmp_ratelimit", "0").unwrap();
        testbed::write_sysctl("net.ipv4.icmp_ratemask", "0").unwrap();
        // This applies to IPv6, too. Kernels before 6.13 have one value for all namespaces, which a test must not
        // change.
        testbed::write_sysctl("net.ipv4.icmp_msgs_per_sec", "1000000").ok();
        testbed::write_sysctl("net.ipv4.icmp_msgs_burst", "1000000").ok();
        testbed::write_sysctl("net.ipv6.icmp.ratelimit", "0").unwrap();
        testbed::write_sysctl("net.ipv4.conf.all.send_redirects", "0").unwrap();
        testbed::write_sysctl("net.ipv4.conf.default.send_redirects", "0").unwrap();
    });
    up(node, "lo");
}

/// Joins a member to the node by a veth pair, with the node as its gateway.
fn join(node: &Member, member: &Member, near: [IpAddr; 2]) {
    member.enter(configure_kernel);
    up(member, "lo");
    let near_name: LinkName = format!("to-{}", member.name).parse().unwrap();
    let far_name: LinkName = "eth0".parse().unwrap();
    let mut at_node = Connection::open_in(&node.namespace).unwrap();
    at_node
        .add_veth(&near_name, &far_name, Some(member.namespace.as_fd()))
        .unwrap();
    let near_link = up(node, near_name.as_str());
    let far_link = up(member, "eth0");
    let mut at_member = Connection::open_in(&member.namespace).unwrap();
    for (near, far) in near.into_iter().zip(member.addresses) {
        at_node.add_address(near_link, host(near)).unwrap();
        at_member.add_address(far_link, host(far)).unwrap();
        at_node.add_route(&Route::on_link(host(far), near_link)).unwrap();
        at_member
            .add_route(&Route::on_link(host(near), far_link))
            .unwrap();
        at_member.add_route(&Route::default_via(near)).unwrap();
    }
}

fn up(member: &Member, name: &str) -> LinkIndex {
    let mut connection = Connection::open_in(&member.namespace).unwrap();
    let link = connection.link_index(&name.parse().unwrap()).unwrap();
    connection.change_link(link, &LinkChange::up()).unwrap();
    link
}

/// Makes addresses usable at once, and disables reverse path filtering.
fn configure_kernel() {
    for (name, value) in [
        ("net.ipv6.conf.all.accept_dad", "0"),
        ("net.ipv6.conf.default.accept_dad", "0"),
        ("net.ipv4.conf.all.rp_filter", "0"),
        ("net.ipv4.conf.default.rp_filter", "0"),
        ("net.ipv4.ping_group_range", "0 0"),
    ] {
        testbed::write_sysctl(name, value).unwrap();
    }
}

fn host(address: IpAddr) -> IpNet {
    IpNet::from(address)
}

fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
    }
}

fn addresses(pair: [&str; 2]) -> [IpAddr; 2] {
    pair.map(|text| text.parse().unwrap())
}
