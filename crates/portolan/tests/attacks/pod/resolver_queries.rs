//! A client of DNS that keeps queries to a resolver pending.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use super::NODE;
use crate::test_cluster::TestCluster;

const DNS_PORT: u16 = 10053;
/// Timeout of a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Names of a flood: more than the queries to resolvers of all clients, 1,000.
const NAMES: u16 = 1_500;
/// Begins the names that the resolver answers.
const ANSWERED: &str = "victim";
const NO_ERROR: u8 = 0;
const SERVER_FAILURE: u8 = 2;

/// Returns a query for a name outside of the cluster's zone.
fn query(label: &str) -> Vec<u8> {
    let mut message = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.push(u8::try_from(label.len()).expect("a label length"));
    message.extend(label.as_bytes());
    message.extend(b"\x07example\x03com\0");
    // Type A, class IN.
    message.extend([0, 1, 0, 1]);
    message
}

/// Sends a query over TCP. Returns the RCODE.
fn query_tcp(server: SocketAddr, label: &str) -> Option<u8> {
    let mut stream = TcpStream::connect(server).ok()?;
    stream
        .set_read_timeout(Some(RESPONSE_TIMEOUT))
        .expect("a read timeout");
    let query = query(label);
    let length = u16::try_from(query.len())
        .expect("the length of a query")
        .to_be_bytes();
    stream.write_all(&[&length, &query[..]].concat()).ok()?;
    let mut response = [0; 14];
    stream.read_exact(&mut response).ok()?;
    Some(response[5] & 15)
}

/// Responds to queries for names that begin with [`ANSWERED`] with an address.
fn resolve(socket: &UdpSocket) -> std::io::Result<()> {
    let mut buffer = [0; 512];
    loop {
        let (octets, client) = socket.recv_from(&mut buffer)?;
        let query = &buffer[..octets];
        // The name begins behind the header and the length of its first label. Its case is random.
        let label = query.get(13..13 + ANSWERED.len());
        let is_answered = label.is_some_and(|label| label.eq_ignore_ascii_case(ANSWERED.as_bytes()));
        let Some(end) = query.iter().skip(12).position(|octet| *octet == 0) else {
            continue;
        };
        if is_answered {
            // The question ends with its type and class.
            let mut response = query[..12 + end + 5].to_vec();
            // A response with recursion, one question, one answer and no other records.
            response[2] |= 0x80;
            response[3] = 0x80;
            response[4..12].copy_from_slice(&[0, 1, 0, 1, 0, 0, 0, 0]);
            // The name of the question, type A, class IN, 60 seconds, 192.0.2.1.
            response.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
            socket.send_to(&response, client)?;
        }
    }
}

/// Sends the queries of a flood, and waits for the first one that fails.
fn flood(server: SocketAddr) -> u8 {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    socket.connect(server).expect("a route");
    socket
        .set_read_timeout(Some(RESPONSE_TIMEOUT))
        .expect("a read timeout");
    for number in 0..NAMES {
        socket
            .send(&query(&format!("name-{number}")))
            .expect("a sent query");
    }
    let mut response = [0; 512];
    let octets = socket.recv(&mut response).expect("a response");
    assert!(octets >= 12, "a response of {octets} bytes");
    response[3] & 15
}

#[test]
fn one_client_leaves_queries_to_resolvers_to_others() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(2);
        let resolver = SocketAddr::new(cluster.address("node-2"), 53);
        let neighbour = cluster.network().member("node-2").expect("a node");
        let socket = neighbour.enter(|| UdpSocket::bind(resolver));
        let socket = socket.expect("a namespace").expect("a port");
        // The thread ends with the test process.
        std::thread::spawn(move || resolve(&socket));
        cluster.up(NODE, &[&format!("--forward={resolver}")]);
        // The node is a client by each of its addresses.
        let own = cluster.network().member(NODE).expect("a node");
        let servers = own.plan.address.both();
        let [of_attacker, of_victim] = servers.map(|address| SocketAddr::new(address, DNS_PORT));
        let mut attempts = 0;
        cluster.wait_until("recursion for the victim", |_| {
            attempts += 1;
            let code = own.enter(|| query_tcp(of_victim, &format!("{ANSWERED}-{attempts}")));
            (code.expect("a namespace") == Some(NO_ERROR)).then_some(())
        });
        let attack = || {
            let of_flood = flood(of_attacker);
            (of_flood, query_tcp(of_victim, &format!("{ANSWERED}-last")))
        };
        let (of_flood, of_query) = own.enter(attack).expect("a namespace");
        assert_eq!(of_flood, SERVER_FAILURE, "the flood reaches no limit");
        assert_eq!(of_query, Some(NO_ERROR), "the victim gets no response");
    });
}
