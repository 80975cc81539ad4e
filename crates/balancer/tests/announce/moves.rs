//! An address moves on purpose, and connections that are open go on: through the node that they were opened at.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use client::{Config, JSON, MERGE_PATCH};
use http::Method;
use netlink::nftables::{
    BaseChain, Batch, Chain, ChainKind, Change, Comparison, Expression, Hook, MetaKey, Nftables, PayloadBase,
    Register, Rule, Table,
};
use serde_json::{Value, json};
use testbed::{Cluster, Topology};

use crate::setting::{
    ADDRESS, Announcer, Api, Order, PATIENCE, POOLS, QUESTION_PERIOD, SERVICES, ask_api, await_members, pool,
    service, start_announcer, start_api,
};

const ADDRESS6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x30, 0, 0, 0, 0, 0, 0x200);
const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];
const PORT: u16 = 80;
/// Where what answers is, on every node.
const ENDPOINT_PORT: u16 = 8_080;
/// How long a connection may take that goes to nobody because the address moves at the moment.
const TRY: Duration = Duration::from_millis(300);
/// More than what is on its way at a time.
const MUCH: usize = 300_000;

#[test]
fn connections_go_on_through_the_node_that_they_were_opened_at() {
    testbed::in_namespace(|| {
        let topology = Topology::with_nodes(NODES.len()).expect("three nodes");
        let cluster = Arc::new(Cluster::start(topology).expect("a cluster"));
        let directory = tempfile::tempdir().expect("a directory");
        let Api {
            admin: config,
            announcer,
            ..
        } = start_api(&cluster, &directory);
        let create = |path: &str, body: Value| ask_api(&cluster, &config, Method::POST, path, JSON, &body);
        create(POOLS, pool("six", &[ADDRESS6.into()]));
        create(SERVICES, service("six", json!({"ipFamilies": ["IPv6"]})));
        for pool in ["p", "six"] {
            let spec = json!({"spec": {"nodeSelectors": [{"matchLabels": {"takes": "traffic"}}]}});
            let path = format!("{POOLS}/{pool}");
            ask_api(&cluster, &config, Method::PATCH, &path, MERGE_PATCH, &spec);
        }
        for name in NODES {
            serve(&cluster, name);
        }
        let announcers: Vec<Announcer> = NODES
            .map(|name| start_announcer(&cluster, &announcer, name))
            .into();
        await_members(&cluster, &config);
        let [first, second, _] = NODES;

        label(&cluster, &config, first, true);
        let mut opened_first = Talks::open(&cluster, first);
        opened_first.say("hello");

        // It moves, and connections that are open are where they were, also those that are silent until they end.
        let silent = Talks::open(&cluster, first);
        move_to(&cluster, &config, second, first);
        let mut opened_second = Talks::open(&cluster, second);
        opened_first.say("still here");
        opened_first.say_much();
        opened_second.say("new here");
        silent.end();

        // Back: now it is the other ones who are led.
        move_to(&cluster, &config, first, second);
        let mut opened_third = Talks::open(&cluster, first);
        for talks in [&mut opened_first, &mut opened_second, &mut opened_third] {
            talks.say("back");
            talks.say_much();
        }

        // The process ends, and its machine goes on.
        label(&cluster, &config, second, true);
        announcers[0].orders.send(Order::End).expect("it runs");
        let mut opened_fourth = Talks::open(&cluster, second);
        for talks in [
            &mut opened_first,
            &mut opened_second,
            &mut opened_third,
            &mut opened_fourth,
        ] {
            talks.say("without it");
        }
        for talks in [opened_first, opened_second, opened_third, opened_fourth] {
            talks.end();
        }
    });
}

/// Moves the addresses to a node.
fn move_to(cluster: &Cluster, config: &Config, to: &str, from: &str) {
    label(cluster, config, to, true);
    label(cluster, config, from, false);
}

/// Whether a node may have the addresses.
fn label(cluster: &Cluster, config: &Config, node: &str, takes_traffic: bool) {
    let value = takes_traffic.then_some("traffic");
    let body = json!({"metadata": {"labels": {"takes": value}}});
    let path = format!("/api/v1/nodes/{node}");
    ask_api(cluster, config, Method::PATCH, &path, MERGE_PATCH, &body);
}

/// A connection to the address of each family.
struct Talks(Vec<Talk>);

impl Talks {
    /// Opens them, as soon as new ones come to that node.
    fn open(cluster: &Cluster, node: &str) -> Self {
        let addresses: [IpAddr; 2] = [ADDRESS.into(), ADDRESS6.into()];
        Self(addresses.map(|address| Talk::open(cluster, address, node)).into())
    }

    fn say(&mut self, text: &str) {
        self.0.iter_mut().for_each(|talk| talk.say(text).expect(text));
    }

    fn say_much(&mut self) {
        self.say(&"much".repeat(MUCH / 4));
    }

    fn end(self) {
        self.0.into_iter().for_each(Talk::end);
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
        let connect = || {
            let stream = TcpStream::connect_timeout(&SocketAddr::new(address, PORT), TRY)?;
            stream.set_read_timeout(Some(TRY))?;
            let mut talk = Self {
                stream: BufReader::new(stream),
                node: node.to_owned(),
            };
            talk.say("where are you?")?;
            talk.stream.get_ref().set_read_timeout(Some(PATIENCE))?;
            Ok::<_, std::io::Error>(talk)
        };
        loop {
            match outside.enter(connect).expect("its namespace") {
                Ok(talk) => return talk,
                Err(error) => assert!(Instant::now() < end, "{address} is not at {node}: {error}"),
            }
            thread::sleep(QUESTION_PERIOD);
        }
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
}

/// Lets a node take connections to the addresses, by a rule as a proxy has it.
fn serve(cluster: &Cluster, name: &str) {
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
