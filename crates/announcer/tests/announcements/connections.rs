//! Connections to an address of each family, with servers that send the name of their node.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use netlink::nftables::{
    BaseChain, Batch, Chain, ChainKind, Change, Comparison, Expression, Hook, MetaKey, Nftables, PayloadBase,
    Register, Rule, Table,
};
use socket2::{Domain, SockRef, Socket, Type};
use testbed::Cluster;

use crate::fixture::{ADDRESS, REQUEST_PERIOD, TIMEOUT};

pub(crate) const ADDRESS6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x30, 0, 0, 0, 0, 0, 0x200);
const PORT: u16 = 80;
/// Port of the server on every node.
const ENDPOINT_PORT: u16 = 8_080;
/// Timeout of a connection that reaches no node while the address moves.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);
/// More bytes than the buffers hold.
const MUCH_BYTES: usize = 300_000;
/// Message of a client that makes the server close first.
const CLOSE_REQUEST: &str = "go";

/// One connection to the address of each family.
pub(crate) struct Connections(Vec<Connection>);

impl Connections {
    /// Opens connections as soon as new ones reach that node.
    pub(crate) fn open(cluster: &Cluster, node: &str) -> Self {
        let addresses: [IpAddr; 2] = [ADDRESS.into(), ADDRESS6.into()];
        Self(
            addresses
                .map(|address| Connection::open(cluster, address, node))
                .into(),
        )
    }

    /// Opens connections from the ports of closed ones. The node must own the addresses already.
    pub(crate) fn reopen(cluster: &Cluster, node: &str, ports: &[u16]) -> Self {
        let addresses: [IpAddr; 2] = [ADDRESS.into(), ADDRESS6.into()];
        let outside = cluster.outside().expect("the outside");
        let open = |(address, port): (IpAddr, &u16)| {
            let connection = outside.enter(|| Connection::connect(address, node, *port, TIMEOUT));
            connection.expect("its namespace").expect("a connection")
        };
        Self(addresses.into_iter().zip(ports).map(open).collect())
    }

    /// Source ports.
    pub(crate) fn ports(&self) -> Vec<u16> {
        let port = |connection: &Connection| {
            connection
                .stream
                .get_ref()
                .local_addr()
                .expect("an address")
                .port()
        };
        self.0.iter().map(port).collect()
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.0
            .iter_mut()
            .for_each(|connection| connection.send(text).expect(text));
    }

    pub(crate) fn send_bulk(&mut self) {
        self.send(&"much".repeat(MUCH_BYTES / 4));
    }

    pub(crate) fn close(self) {
        self.0.into_iter().for_each(Connection::close);
    }

    /// Makes the server close first, so that the ports are free at once.
    pub(crate) fn close_from_server(self) {
        self.0.into_iter().for_each(Connection::close_from_server);
    }

    /// Abandons the connections without a packet to the current owner, so that the ports are free at once.
    pub(crate) fn abandon(self) {
        for connection in self.0 {
            let stream = SockRef::from(connection.stream.get_ref());
            stream
                .set_linger(Some(Duration::ZERO))
                .expect("a reset at the end");
        }
    }
}

struct Connection {
    stream: BufReader<TcpStream>,
    /// Node of the server.
    node: String,
}

impl Connection {
    fn open(cluster: &Cluster, address: IpAddr, node: &str) -> Self {
        let outside = cluster.outside().expect("the outside");
        let end = Instant::now() + TIMEOUT;
        loop {
            let connection = outside.enter(|| Self::connect(address, node, 0, CONNECT_TIMEOUT));
            match connection.expect("its namespace") {
                Ok(connection) => return connection,
                Err(error) => assert!(Instant::now() < end, "{address} is not at {node}: {error}"),
            }
            thread::sleep(REQUEST_PERIOD);
        }
    }

    /// Connects from a port; 0 means any.
    fn connect(address: IpAddr, node: &str, port: u16, timeout: Duration) -> std::io::Result<Self> {
        let (domain, from) = match address {
            IpAddr::V4(_) => (Domain::IPV4, IpAddr::from(Ipv4Addr::UNSPECIFIED)),
            IpAddr::V6(_) => (Domain::IPV6, Ipv6Addr::UNSPECIFIED.into()),
        };
        let socket = Socket::new(domain, Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::new(from, port).into())?;
        socket.connect_timeout(&SocketAddr::new(address, PORT).into(), timeout)?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(timeout))?;
        let mut connection = Self {
            stream: BufReader::new(stream),
            node: node.to_owned(),
        };
        connection.send("where are you?")?;
        connection.stream.get_ref().set_read_timeout(Some(TIMEOUT))?;
        Ok(connection)
    }

    /// Sends a line, which the server echoes with its name.
    fn send(&mut self, text: &str) -> std::io::Result<()> {
        let said = format!("{text}\n");
        self.stream.get_ref().write_all(said.as_bytes())?;
        let mut answer = String::new();
        self.stream.read_line(&mut answer)?;
        if answer == format!("{}: {said}", self.node) {
            Ok(())
        } else {
            Err(std::io::Error::other(format!(
                "expected a response of {}, found {:?}",
                self.node,
                answer.get(..40).unwrap_or(&answer)
            )))
        }
    }

    /// Closes; the server sends its last line and closes too.
    fn close(mut self) {
        self.stream
            .get_ref()
            .shutdown(Shutdown::Write)
            .expect("shut down");
        let mut rest = String::new();
        self.stream
            .read_to_string(&mut rest)
            .expect("a close without a reset");
        assert_eq!(rest, format!("{}: goodbye\n", self.node));
    }

    /// Makes the server send its last line and close first.
    fn close_from_server(mut self) {
        let stream = self.stream.get_ref();
        { stream }
            .write_all(format!("{CLOSE_REQUEST}\n").as_bytes())
            .expect("a sent line");
        let mut rest = String::new();
        let read = self.stream.read_to_string(&mut rest);
        read.expect("a close without a reset");
        assert_eq!(rest, format!("{}: goodbye\n", self.node));
    }
}

/// Makes a node accept connections to the addresses, by a rule like those of the proxy.
pub(crate) fn serve(cluster: &Cluster, name: &str) {
    let member = cluster.member(name).expect("a member");
    let addresses = member.plan.address;
    let listeners = member.enter(|| {
        redirect(addresses.ipv4.into(), addresses.ipv6.into());
        [IpAddr::from(addresses.ipv4), addresses.ipv6.into()]
            .map(|address| TcpListener::bind((address, ENDPOINT_PORT)).expect("a listener"))
    });
    for listener in listeners.expect("its namespace") {
        let name = name.to_owned();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, name) = (stream.expect("a connection"), name.clone());
                thread::spawn(move || serve_connection(&stream, &name));
            }
        });
    }
}

/// Echoes every line, and sends a last line at the end. Clients that only probed the owner may have disconnected.
fn serve_connection(mut stream: &TcpStream, name: &str) {
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        if line == CLOSE_REQUEST {
            break;
        }
        if stream.write_all(format!("{name}: {line}\n").as_bytes()).is_err() {
            return;
        }
    }
    drop(stream.write_all(format!("{name}: goodbye\n").as_bytes()));
}

/// Redirects connections to the addresses to those of this node.
fn redirect(ipv4: IpAddr, ipv6: IpAddr) {
    let mut batch = Batch::new("proxy", None);
    let table = Table {
        name: "proxy".to_owned(),
        comment: String::new(),
        is_dormant: false,
    };
    batch.table(Change::Add, &table, 0);
    let chain = Chain {
        name: "services".to_owned(),
        base: Some(BaseChain {
            kind: ChainKind::Nat,
            hook: Hook::Prerouting,
            priority: -100,
        }),
        comment: String::new(),
    };
    batch.chain(Change::Add, &chain, 0);
    for (to, own) in [(IpAddr::from(ADDRESS), ipv4), (ADDRESS6.into(), ipv6)] {
        batch.rule("services", &redirection(to, own), 0);
    }
    let committed = Nftables::open().expect("nftables").commit(batch);
    committed.expect("committed rules");
}

fn redirection(to: IpAddr, own: IpAddr) -> Rule {
    let bytes = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    // `NFPROTO_IPV4` and `NFPROTO_IPV6`, and the offset of the destination.
    let (family, offset) = if to.is_ipv4() { (2, 16) } else { (10, 24) };
    let (first, port) = (Register::at(0), Register::at(4));
    let compare = |value: Vec<u8>| Expression::Compare {
        register: first,
        comparison: Comparison::Equal,
        value,
    };
    let expressions = vec![
        Expression::Meta {
            key: MetaKey::Family,
            into: first,
        },
        compare(vec![family]),
        Expression::Payload {
            base: PayloadBase::Network,
            offset,
            bytes: bytes(to).len() as u32,
            into: first,
        },
        compare(bytes(to)),
        Expression::Load {
            value: bytes(own),
            into: first,
        },
        Expression::Load {
            value: ENDPOINT_PORT.to_be_bytes().to_vec(),
            into: port,
        },
        Expression::Dnat {
            is_ipv6: to.is_ipv6(),
            address: first,
            port: Some(port),
        },
    ];
    Rule {
        expressions,
        comment: String::new(),
    }
}
