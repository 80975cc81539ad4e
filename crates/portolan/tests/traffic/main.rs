//! `portolan top` and `portolan flows` on a node with a proxy: connections of a known number, and the bytes that the kernel
//! counts.

#[path = "../support/mod.rs"]
mod support;
#[path = "../multi_node/test_cluster.rs"]
#[allow(dead_code, reason = "each test program uses its own part of this")]
mod test_cluster;

mod node;
mod through_api;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use netlink::conntrack::{Conntrack, Family};
use node::{CLIENT, ENDPOINTS, Node, Watch};
use serde_json::Value;

/// Connections that stay open.
const HELD: usize = 12;
/// Connections that end at once.
const SHORT: usize = 8;
/// Connections to an endpoint without a listener.
const REFUSED: usize = 5;
/// Connections to an endpoint that does not respond.
const SILENT: usize = 3;
/// UDP flows.
const DATAGRAMS: usize = 4;
/// Timeout of a connection attempt that gets no reply.
const SILENT_TIMEOUT: Duration = Duration::from_millis(50);
/// Bytes of a request.
const REQUEST: [u8; 100] = [7; 100];

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address and port")
}

/// Sums of the statistics of a Service over intervals.
#[derive(Debug, Default)]
struct Sums {
    opened: f64,
    refused: u64,
    bytes: f64,
}

impl Sums {
    /// Adds an interval.
    fn add(&mut self, traffic: &Value, name: &str) {
        let seconds = traffic["nodes"][0]["intervalSeconds"]
            .as_f64()
            .expect("an interval");
        let Some(service) = service(traffic, name) else {
            return;
        };
        let number = |field: &str| service[field].as_f64().expect("a number");
        self.opened += number("connectionsPerSecond") * seconds;
        self.refused += service["refused"].as_u64().expect("a number");
        let bytes = number("bytesToEndpointsPerSecond") + number("bytesToClientsPerSecond");
        self.bytes += bytes * seconds;
    }
}

fn service<'v>(traffic: &'v Value, name: &str) -> Option<&'v Value> {
    let mut services = traffic["services"].as_array().expect("a list").iter();
    services.find(|service| service["name"] == name)
}

/// Returns the bytes of all entries to a destination, as the kernel counts them.
fn counted_bytes(destination: SocketAddr) -> u64 {
    let mut conntrack = Conntrack::open().expect("a socket");
    let flows = conntrack.flows(Family::V4, 6, |flow| flow.original.destination == destination);
    flows
        .expect("a list")
        .iter()
        .map(netlink::conntrack::Flow::bytes)
        .sum()
}

/// Opens the connections of a test, and returns those that stay open.
fn connect() -> Vec<TcpStream> {
    let connect = |_| {
        let stream = TcpStream::connect(at("10.96.0.5:80")).expect("an endpoint");
        node::exchange(&stream, &REQUEST);
        stream
    };
    let held: Vec<TcpStream> = (0..HELD).map(connect).collect();
    (0..SHORT).map(connect).for_each(drop);
    held
}

fn send_datagrams() -> Vec<UdpSocket> {
    (0..DATAGRAMS)
        .map(|_| {
            let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
            socket.connect(at("10.96.0.10:53")).expect("a route");
            socket.send(&REQUEST).expect("a route");
            socket.recv(&mut [0; 200]).expect("a reply");
            socket
        })
        .collect()
}

/// Reads intervals until the Services have as many new connections as expected, and one more.
fn sums(watch: &mut Watch, expected: &[(&'static str, usize)]) -> (BTreeMap<&'static str, Sums>, Value) {
    let mut sums: BTreeMap<&'static str, Sums> = BTreeMap::new();
    loop {
        let traffic = watch.next();
        for &(name, _) in expected {
            sums.entry(name).or_default().add(&traffic, name);
        }
        let is_complete = expected
            .iter()
            .all(|&(name, number)| sums[name].opened.round() as usize >= number);
        if is_complete {
            // Another interval shows that nothing counts twice, and that unanswered connections are known for a second.
            let last = watch.next();
            for &(name, _) in expected {
                sums.entry(name).or_default().add(&last, name);
            }
            return (sums, last);
        }
    }
}

fn counts_connections(mode: &str) {
    let node = Node::start(mode);
    let mut watch = node.watch();
    watch.next();
    let held = connect();
    let datagrams = send_datagrams();
    let (found, last) = sums(&mut watch, &[("web", HELD + SHORT), ("dns", DATAGRAMS)]);
    assert_eq!(found["web"].opened.round() as usize, HELD + SHORT, "{last:#}");
    assert_eq!(found["dns"].opened.round() as usize, DATAGRAMS, "{last:#}");
    assert_eq!(
        found["web"].bytes.round() as u64,
        counted_bytes(at("10.96.0.5:80")),
        "{last:#}"
    );
    let web = service(&last, "web").expect("open connections");
    assert_eq!(web["connections"], HELD, "{web:#}");
    assert_eq!(
        service(&last, "dns").expect("flows")["connections"],
        DATAGRAMS,
        "{last:#}"
    );
    let clients = web["clients"].as_array().expect("clients");
    assert_eq!(clients.len(), 1, "{clients:?}");
    assert_eq!(
        (&clients[0]["address"], &clients[0]["kind"]),
        (&CLIENT.into(), &"node".into())
    );
    let state = &last["nodes"][0];
    assert_eq!(
        (&state["events"], &state["mode"]),
        (&"complete".into(), &mode.into()),
        "{state:#}"
    );
    let of_endpoints: Vec<(&Value, u64)> = web["endpoints"]
        .as_array()
        .expect("endpoints")
        .iter()
        .map(|row| (&row["address"], row["connections"].as_u64().expect("a number")))
        .filter(|(_, connections)| *connections > 0)
        .collect();
    let total: u64 = of_endpoints.iter().map(|(_, connections)| connections).sum();
    assert_eq!(total, HELD as u64);
    for (address, _) in &of_endpoints {
        let is_known = match mode {
            "userspace" => address.is_null(),
            _ => ENDPOINTS.iter().any(|ip| **address == format!("{ip}:8080")),
        };
        assert!(is_known, "{of_endpoints:?}");
    }
    drop((held, datagrams));
}

fn counts_failures(mode: &str) {
    let node = Node::start(mode);
    let mut watch = node.watch();
    watch.next();
    for _ in 0..REFUSED {
        let error = TcpStream::connect(at("10.96.0.6:80")).expect_err("no listener");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    }
    for _ in 0..SILENT {
        TcpStream::connect_timeout(&at("10.96.0.7:80"), SILENT_TIMEOUT).expect_err("no reply");
    }
    let (found, last) = sums(&mut watch, &[("closed", REFUSED), ("silent", SILENT)]);
    assert_eq!(
        (
            found["closed"].opened.round() as usize,
            found["closed"].refused as usize
        ),
        (REFUSED, REFUSED)
    );
    assert_eq!(
        (found["silent"].opened.round() as usize, found["silent"].refused),
        (SILENT, 0)
    );
    let silent = service(&last, "silent").expect("entries without a reply");
    assert_eq!(
        (&silent["unanswered"], &silent["connections"]),
        (&SILENT.into(), &0.into()),
        "{silent:#}"
    );
    assert!(
        service(&last, "closed").is_none_or(|closed| closed["failed"] == 0),
        "{last:#}"
    );
}

fn lists_flows(mode: &str) {
    let node = Node::start(mode);
    let held = connect();
    let flows = node.run(&["flows", "service", "shop/web", "--from=node/node-a", "-o", "json"]);
    let rows = flows["flows"].as_array().expect("flows");
    let own: Vec<u16> = held
        .iter()
        .map(|stream| stream.local_addr().expect("a socket").port())
        .collect();
    let listed: Vec<&Value> = rows.iter().filter(|row| row["state"] == "ESTABLISHED").collect();
    assert_eq!(listed.len(), HELD, "{flows:#}");
    for row in listed {
        let client = at(row["client"].as_str().expect("a client"));
        assert!(
            client.ip().to_string() == CLIENT && own.contains(&client.port()),
            "{row:#}"
        );
        assert_eq!(
            (&row["kind"], &row["address"], &row["port"]),
            (&"clusterIP".into(), &"10.96.0.5".into(), &80.into())
        );
        assert_eq!(row["endpoint"].is_null(), mode == "userspace", "{row:#}");
    }
    let limited = node.run(&["flows", "--limit=3", "--protocol=tcp", "-o", "json"]);
    assert_eq!(limited["flows"].as_array().map(Vec::len), Some(3));
    assert_eq!(limited["nodes"][0]["truncated"][0], "flowRows");
    let udp = node.run(&["flows", "service", "shop/web", "--protocol=udp", "-o", "json"]);
    assert!(udp["flows"].is_null(), "{udp:#}");
}

macro_rules! modes {
    ($($mode:ident: $($test:ident)*;)*) => {$(
        mod $mode {
            $(
                #[test]
                fn $test() {
                    testbed::in_namespace(|| super::$test(stringify!($mode)));
                }
            )*
        }
    )*};
}

modes! {
    nftables: counts_connections lists_flows;
    iptables: counts_connections lists_flows;
    userspace: counts_connections lists_flows;
}

#[test]
fn tables_have_units_and_notes() {
    testbed::in_namespace(|| {
        let node = Node::start("nftables");
        let held = connect();
        let (stdout, stderr) = node.text(&["top", "services", "--namespace=shop", "--local"], &[]);
        let lines: Vec<&str> = stdout.lines().collect();
        assert!(lines[0].starts_with("NAMESPACE  NAME  "), "{stdout}");
        let web = lines
            .iter()
            .find(|line| line.starts_with("shop       web "))
            .expect("a line");
        let cells: Vec<&str> = web.split_whitespace().collect();
        assert_eq!(
            cells[2..],
            [HELD.to_string().as_str(), "0/s", "-", "-", "0", "0"],
            "{stdout}"
        );
        assert!(stderr.contains("net.netfilter.nf_conntrack_acct=1"), "{stderr}");
        let (one, _) = node.text(&["top", "services", "shop/web", "--local"], &[]);
        for title in ["NAMESPACE  NAME", "ENDPOINT ", "CLIENT "] {
            assert!(one.contains(title), "{one}");
        }
        assert!(one.contains("node/node-a"), "{one}");
        let (none, _) = node.text(&["top", "services", "--local"], &[]);
        assert_eq!(
            none,
            "No traffic of Services in namespace default in the interval (-A for all namespaces)\n"
        );
        drop(held);
    });
}

#[test]
fn failures_are_counted_in_nftables_mode() {
    testbed::in_namespace(|| counts_failures("nftables"));
}

#[test]
fn failures_are_counted_in_iptables_mode() {
    testbed::in_namespace(|| counts_failures("iptables"));
}
