//! Connections to an address of each family, whose other ends say which node they are at.

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

use crate::setting::{ADDRESS, PATIENCE, QUESTION_PERIOD};

pub const ADDRESS6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x30, 0, 0, 0, 0, 0, 0x200);
const PORT: u16 = 80;
/// Where what answers is, on every node.
const ENDPOINT_PORT: u16 = 8_080;
/// How long a connection may take that goes to nobody because the address moves at the moment.
const TRY: Duration = Duration::from_millis(300);
/// More than what is on its way at a time.
const MUCH: usize = 300_000;
/// What a client says that wants the node to take its leave first.
const GO: &str = "go";

/// A connection to the address of each family.
pub struct Talks(Vec<Talk>);

impl Talks {
    /// Opens them, as soon as new ones come to that node.
    pub fn open(cluster: &Cluster, node: &str) -> Self {
        let addresses: [IpAddr; 2] = [ADDRESS.into(), ADDRESS6.into()];
        Self(addresses.map(|address| Talk::open(cluster, address, node)).into())
    }

    /// Opens ones that come from where these came from, which are over. That node is known to have the addresses.
    pub fn open_again(cluster: &Cluster, node: &str, ports: &[u16]) -> Self {
        let addresses: [IpAddr; 2] = [ADDRESS.into(), ADDRESS6.into()];
        let outside = cluster.outside().expect("the outside");
        let open = |(address, port): (IpAddr, &u16)| {
            let talk = outside.enter(|| Talk::connect(address, node, *port, PATIENCE));
            talk.expect("its namespace").expect("a connection")
        };
        Self(addresses.into_iter().zip(ports).map(open).collect())
    }

    /// The ports that they come from.
    pub fn ports(&self) -> Vec<u16> {
        let port = |talk: &Talk| talk.stream.get_ref().local_addr().expect("an address").port();
        self.0.iter().map(port).collect()
    }

    pub fn say(&mut self, text: &str) {
        self.0.iter_mut().for_each(|talk| talk.say(text).expect(text));
    }

    pub fn say_much(&mut self) {
        self.say(&"much".repeat(MUCH / 4));
    }

    pub fn end(self) {
        self.0.into_iter().for_each(Talk::end);
    }

    /// Has the node end them first, so that their ports are free at once.
    pub fn end_there_first(self) {
        self.0.into_iter().for_each(Talk::end_there_first);
    }

    /// Gives them up without a word to the node that would arrive now, so that their ports are free at once.
    pub fn abandon(self) {
        for talk in self.0 {
            let stream = SockRef::from(talk.stream.get_ref());
            stream
                .set_linger(Some(Duration::ZERO))
                .expect("a reset at the end");
        }
    }
}

struct Talk {
    stream: BufReader<TcpStream>,
    /// The node that answers.
    node: String,
}

impl Talk {
    fn open(cluster: &Cluster, address: IpAddr, node: &str) -> Self {
        let outside = cluster.outside().expect("the outside");
        let end = Instant::now() + PATIENCE;
        loop {
            let talk = outside.enter(|| Self::connect(address, node, 0, TRY));
            match talk.expect("its namespace") {
                Ok(talk) => return talk,
                Err(error) => assert!(Instant::now() < end, "{address} is not at {node}: {error}"),
            }
            thread::sleep(QUESTION_PERIOD);
        }
    }

    /// Connects from a port, or from any (0).
    fn connect(address: IpAddr, node: &str, port: u16, patience: Duration) -> std::io::Result<Self> {
        let (domain, from) = match address {
            IpAddr::V4(_) => (Domain::IPV4, IpAddr::from(Ipv4Addr::UNSPECIFIED)),
            IpAddr::V6(_) => (Domain::IPV6, Ipv6Addr::UNSPECIFIED.into()),
        };
        let socket = Socket::new(domain, Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::new(from, port).into())?;
        socket.connect_timeout(&SocketAddr::new(address, PORT).into(), patience)?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(patience))?;
        let mut talk = Self {
            stream: BufReader::new(stream),
            node: node.to_owned(),
        };
        talk.say("where are you?")?;
        talk.stream.get_ref().set_read_timeout(Some(PATIENCE))?;
        Ok(talk)
    }

    /// Says a line, which the node says again with its name.
    fn say(&mut self, text: &str) -> std::io::Result<()> {
        let said = format!("{text}\n");
        self.stream.get_ref().write_all(said.as_bytes())?;
        let mut answer = String::new();
        self.stream.read_line(&mut answer)?;
        match answer == format!("{}: {said}", self.node) {
            true => Ok(()),
            false => Err(std::io::Error::other(format!(
                "expected an answer of {}, got {:?}",
                self.node,
                answer.get(..40).unwrap_or(&answer)
            ))),
        }
    }

    /// Has no more to say; the node takes its leave, and ends too.
    fn end(mut self) {
        self.stream
            .get_ref()
            .shutdown(Shutdown::Write)
            .expect("shut down");
        let mut rest = String::new();
        self.stream
            .read_to_string(&mut rest)
            .expect("an end without a reset");
        assert_eq!(rest, format!("{}: goodbye\n", self.node));
    }

    /// The node takes its leave when it is told to, and ends first.
    fn end_there_first(mut self) {
        let stream = self.stream.get_ref();
        { stream }.write_all(format!("{GO}\n").as_bytes()).expect("said");
        let mut rest = String::new();
        let read = self.stream.read_to_string(&mut rest);
        read.expect("an end without a reset");
        assert_eq!(rest, format!("{}: goodbye\n", self.node));
    }
}

/// Lets a node take connections to the addresses, by a rule as a proxy has it.
pub fn serve(cluster: &Cluster, name: &str) {
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
                thread::spawn(move || answer(&stream, &name));
            }
        });
    }
}

/// Says every line again; at the end, goodbye. Clients that looked where an address is may be gone.
fn answer(mut stream: &TcpStream, name: &str) {
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        if line == GO {
            break;
        }
        if stream.write_all(format!("{name}: {line}\n").as_bytes()).is_err() {
            return;
        }
    }
    drop(stream.write_all(format!("{name}: goodbye\n").as_bytes()));
}

/// Rewrites connections to the addresses to ones to this node's own.
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
    committed.expect("in force");
}

fn redirection(to: IpAddr, own: IpAddr) -> Rule {
    let bytes = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    // `NFPROTO_IPV4` and `NFPROTO_IPV6`, and where the destination is.
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
            port,
        },
    ];
    Rule {
        expressions,
        comment: String::new(),
    }
}
