//! Abuse of the DNS server of a node as an open resolver: cluster names, recursion, zone transfer and
//! amplification.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use crate::test_cluster::TestCluster;

const SERVER: &str = "node-1";
const DNS_PORT: u16 = 10053;
const NAME: &[&str] = &["kubernetes", "default", "svc", "cluster", "local"];
/// Timeout of a DNS query.
const QUERY_TIMEOUT: Duration = Duration::from_millis(500);
const NO_ERROR: u8 = 0;
const REFUSED: u8 = 5;
/// Queries of a flood. The server sends a network a burst of 20 refusals, then 10 per second.
const FLOOD_QUERIES: u16 = 1_000;

/// Returns a query for the address of the API server.
fn query(id: u16) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    for label in NAME {
        message.push(u8::try_from(label.len()).expect("a label length"));
        message.extend(label.as_bytes());
    }
    // Type A, class IN, and an OPT record for responses of 4,096 bytes.
    message.extend([0, 0, 1, 0, 1, 0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0]);
    message
}

/// Summary of a DNS response.
#[derive(Debug, PartialEq, Eq)]
struct Response {
    /// RCODE.
    code: u8,
    /// Number of answer records.
    records: u8,
    /// Size of the message in bytes.
    size_bytes: usize,
}

fn receive(socket: &UdpSocket) -> Option<Response> {
    let mut buffer = [0; 4_096];
    let size_bytes = socket.recv(&mut buffer).ok()?;
    Some(Response {
        code: buffer[3] & 15,
        records: buffer[7],
        size_bytes,
    })
}

fn socket_towards(server: SocketAddr) -> UdpSocket {
    let any = match server.ip() {
        IpAddr::V4(_) => "0.0.0.0:0",
        IpAddr::V6(_) => "[::]:0",
    };
    let socket = UdpSocket::bind(any).expect("a socket");
    socket.connect(server).expect("a route");
    socket
        .set_read_timeout(Some(QUERY_TIMEOUT))
        .expect("a read timeout");
    socket
}

/// Sends a query over UDP.
fn query_udp(server: SocketAddr) -> Option<Response> {
    let socket = socket_towards(server);
    socket.send(&query(1)).ok()?;
    receive(&socket)
}

/// Returns a query of type AXFR for the cluster zone.
fn transfer_query() -> Vec<u8> {
    let mut message = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in &NAME[3..] {
        message.push(u8::try_from(label.len()).expect("a label length"));
        message.extend(label.as_bytes());
    }
    message.extend([0, 0, 252, 0, 1]);
    message
}

/// Sends a query over TCP. Returns the RCODE and the number of answer records.
fn query_tcp(server: SocketAddr, query: &[u8]) -> Option<(u8, u8)> {
    let mut stream = TcpStream::connect(server).ok()?;
    stream
        .set_read_timeout(Some(10 * QUERY_TIMEOUT))
        .expect("a read timeout");
    let length = u16::try_from(query.len())
        .expect("the length of a query")
        .to_be_bytes();
    stream.write_all(&[&length, query].concat()).ok()?;
    let mut response = [0; 14];
    stream.read_exact(&mut response).ok()?;
    Some((response[5] & 15, response[9]))
}

/// Returns a query for a name outside of the cluster domain, which the server would forward.
fn external_query() -> Vec<u8> {
    let mut message = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend(b"\x07example\x03com\0");
    message.extend([0, 1, 0, 1]);
    message
}

#[test]
fn unauthorized_client_gets_no_recursion_and_no_zone_transfer() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(2);
        let neighbour = cluster.network().member("node-2").expect("a node");
        let resolver = SocketAddr::new(cluster.address("node-2"), 53);
        let resolving = neighbour
            .enter(|| UdpSocket::bind(resolver))
            .expect("a namespace");
        let resolving = resolving.expect("a port");
        resolving
            .set_read_timeout(Some(QUERY_TIMEOUT))
            .expect("a read timeout");
        cluster.up(SERVER, &[&format!("--forward={resolver}")]);
        let server = SocketAddr::new(cluster.address(SERVER), DNS_PORT);
        let query = external_query();
        let forwarded = || {
            let mut buffer = [0; 512];
            let from = resolving.recv_from(&mut buffer);
            from.is_ok_and(|(octets, _)| {
                buffer[..octets]
                    .to_ascii_lowercase()
                    .windows(7)
                    .any(|part| part == b"example")
            })
        };
        cluster.wait_until("recursion for the node itself", |cluster| {
            let own = cluster.network().member(SERVER).expect("a node");
            let send = || socket_towards(server).send(&query);
            own.enter(send).expect("a namespace").ok()?;
            forwarded().then_some(())
        });
        // Queries of earlier attempts may arrive late.
        while forwarded() {}
        let neighbour = cluster.network().member("node-2").expect("a node");
        let query_both = || {
            let socket = socket_towards(server);
            socket.send(&query).expect("a sent query");
            let response = receive(&socket);
            (response.map(|response| response.code), query_tcp(server, &query))
        };
        let (datagram, stream) = neighbour.enter(query_both).expect("a namespace");
        assert!(!forwarded(), "the server resolves names for unauthorized clients");
        assert_eq!(datagram, Some(REFUSED));
        assert!(stream.is_none_or(|(code, _)| code == REFUSED), "{stream:?}");
        for client in ["node-2", SERVER] {
            let member = cluster.network().member(client).expect("a node");
            let transferred = member
                .enter(|| query_tcp(server, &transfer_query()))
                .expect("a namespace");
            assert!(
                transferred.is_none_or(|(code, records)| code == REFUSED && records == 0),
                "{client} gets the zone: {transferred:?}"
            );
        }
    });
}

#[test]
fn unauthorized_client_gets_no_cluster_names_and_few_refusals() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(2);
        cluster.up(SERVER, &["--forward="]);
        let servers = cluster
            .network()
            .member(SERVER)
            .expect("a node")
            .plan
            .address
            .both();
        let servers = servers.map(|address| SocketAddr::new(address, DNS_PORT));
        for server in servers {
            cluster.wait_until("DNS for the node itself", |cluster| {
                let own = cluster.network().member(SERVER).expect("a node");
                let response = own.enter(|| query_udp(server)).expect("a namespace")?;
                (response.code == NO_ERROR && response.records == 1).then_some(())
            });
        }
        let neighbour = cluster.network().member("node-2").expect("a node");
        neighbour
            .enter(|| {
                for server in servers {
                    let response = query_udp(server).expect("a response");
                    assert_eq!((response.code, response.records), (REFUSED, 0));
                    assert!(
                        response.size_bytes <= query(1).len(),
                        "a refusal does not amplify"
                    );
                    let socket = socket_towards(server);
                    let mut responses = 0;
                    for id in 0..FLOOD_QUERIES {
                        socket.send(&query(id)).expect("a sent query");
                    }
                    while receive(&socket).is_some() {
                        responses += 1;
                    }
                    assert!(
                        responses < FLOOD_QUERIES / 2,
                        "{responses} responses to {FLOOD_QUERIES} queries"
                    );
                }
            })
            .expect("a namespace");
        // After the join the address belongs to a Node.
        let (server, token) = (cluster.server(SERVER), cluster.token(SERVER, &[]));
        cluster.join("node-2", &["--server", &server, "--token", &token]);
        cluster.wait_for_node(SERVER, "node-2", "True");
        cluster.wait_until("DNS for another node of the cluster", |cluster| {
            let neighbour = cluster.network().member("node-2").expect("a node");
            let response = neighbour.enter(|| query_udp(servers[0])).expect("a namespace")?;
            (response.code == NO_ERROR && response.records == 1).then_some(())
        });
    });
}
