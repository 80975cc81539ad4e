//! The DNS server of a machine as an open resolver (M6): to read the names of the cluster, and to send its answers to others.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use crate::lab::Lab;

const SERVER: &str = "node-1";
const DNS_PORT: u16 = 10053;
const NAME: &[&str] = &["kubernetes", "default", "svc", "cluster", "local"];
const PATIENCE: Duration = Duration::from_millis(500);
const NO_ERROR: u8 = 0;
const REFUSED: u8 = 5;
/// Questions of a flood. Of the refusals, a network gets twenty at once and ten a second.
const FLOOD: u16 = 1_000;

fn question(id: u16) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    for label in NAME {
        message.push(u8::try_from(label.len()).expect("a label"));
        message.extend(label.as_bytes());
    }
    // Type A, class IN, and an OPT record that takes answers of 4,096 octets.
    message.extend([0, 0, 1, 0, 1, 0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0]);
    message
}

/// The code of an answer, how many records it has, and its octets.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    code: u8,
    records: u8,
    octets: usize,
}

fn receive(socket: &UdpSocket) -> Option<Answer> {
    let mut buffer = [0; 4_096];
    let octets = socket.recv(&mut buffer).ok()?;
    Some(Answer {
        code: buffer[3] & 15,
        records: buffer[7],
        octets,
    })
}

fn socket_towards(server: SocketAddr) -> UdpSocket {
    let any = match server.ip() {
        IpAddr::V4(_) => "0.0.0.0:0",
        IpAddr::V6(_) => "[::]:0",
    };
    let socket = UdpSocket::bind(any).expect("a socket");
    socket.connect(server).expect("a route");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    socket
}

fn ask(server: SocketAddr) -> Option<Answer> {
    let socket = socket_towards(server);
    socket.send(&question(1)).ok()?;
    receive(&socket)
}

/// Type AXFR, for the whole zone.
fn transfer() -> Vec<u8> {
    let mut message = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in &NAME[3..] {
        message.push(u8::try_from(label.len()).expect("a label"));
        message.extend(label.as_bytes());
    }
    message.extend([0, 0, 252, 0, 1]);
    message
}

/// The code of the answer over TCP, and how many records it has.
fn ask_by_tcp(server: SocketAddr, question: &[u8]) -> Option<(u8, u8)> {
    let mut stream = TcpStream::connect(server).ok()?;
    stream
        .set_read_timeout(Some(10 * PATIENCE))
        .expect("a time limit");
    let length = u16::try_from(question.len()).expect("a question").to_be_bytes();
    stream.write_all(&[&length, question].concat()).ok()?;
    let mut answer = [0; 14];
    stream.read_exact(&mut answer).ok()?;
    Some((answer[5] & 15, answer[9]))
}

/// A name outside of the cluster's, which the server would ask others for.
fn outer_question() -> Vec<u8> {
    let mut message = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend(b"\x07example\x03com\0");
    message.extend([0, 1, 0, 1]);
    message
}

#[test]
fn a_stranger_gets_neither_recursion_nor_the_zone() {
    testbed::in_namespace(|| {
        let mut lab = Lab::new(2);
        let neighbour = lab.cluster().member("node-2").expect("a machine");
        let resolver = SocketAddr::new(lab.address("node-2"), 53);
        let resolving = neighbour
            .enter(|| UdpSocket::bind(resolver))
            .expect("a namespace");
        let resolving = resolving.expect("a port");
        resolving.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        lab.up(SERVER, &[&format!("--forward={resolver}")]);
        let server = SocketAddr::new(lab.address(SERVER), DNS_PORT);
        let question = outer_question();
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
        lab.until("recursion for the machine itself", |lab| {
            let own = lab.cluster().member(SERVER).expect("a machine");
            let send = || socket_towards(server).send(&question);
            own.enter(send).expect("a namespace").ok()?;
            forwarded().then_some(())
        });
        // Questions that are still on their way.
        while forwarded() {}
        let neighbour = lab.cluster().member("node-2").expect("a machine");
        let ask_both = || {
            let socket = socket_towards(server);
            socket.send(&question).expect("sent");
            let answer = receive(&socket);
            (answer.map(|answer| answer.code), ask_by_tcp(server, &question))
        };
        let (datagram, stream) = neighbour.enter(ask_both).expect("a namespace");
        assert!(!forwarded(), "the server resolves names for strangers");
        assert_eq!(datagram, Some(REFUSED));
        assert!(stream.is_none_or(|(code, _)| code == REFUSED), "{stream:?}");
        for machine in ["node-2", SERVER] {
            let member = lab.cluster().member(machine).expect("a machine");
            let transferred = member
                .enter(|| ask_by_tcp(server, &transfer()))
                .expect("a namespace");
            assert!(
                transferred.is_none_or(|(code, records)| code == REFUSED && records == 0),
                "{machine} gets the zone: {transferred:?}"
            );
        }
    });
}

#[test]
fn a_stranger_gets_no_names_and_few_refusals_from_the_dns_of_a_machine() {
    testbed::in_namespace(|| {
        let mut lab = Lab::new(2);
        lab.up(SERVER, &["--forward="]);
        let servers = lab
            .cluster()
            .member(SERVER)
            .expect("a machine")
            .plan
            .address
            .both();
        let servers = servers.map(|address| SocketAddr::new(address, DNS_PORT));
        for server in servers {
            lab.until("DNS for the machine itself", |lab| {
                let own = lab.cluster().member(SERVER).expect("a machine");
                let answer = own.enter(|| ask(server)).expect("a namespace")?;
                (answer.code == NO_ERROR && answer.records == 1).then_some(())
            });
        }
        let neighbour = lab.cluster().member("node-2").expect("a machine");
        neighbour
            .enter(|| {
                for server in servers {
                    let answer = ask(server).expect("an answer");
                    assert_eq!((answer.code, answer.records), (REFUSED, 0));
                    assert!(answer.octets <= question(1).len(), "a refusal does not amplify");
                    let socket = socket_towards(server);
                    let mut answers = 0;
                    for id in 0..FLOOD {
                        socket.send(&question(id)).expect("sent");
                    }
                    while receive(&socket).is_some() {
                        answers += 1;
                    }
                    assert!(answers < FLOOD / 2, "{answers} answers of {FLOOD}");
                }
            })
            .expect("a namespace");
        // Its address is a Node's from now on.
        let (server, token) = (lab.server(SERVER), lab.token(SERVER, &[]));
        lab.join("node-2", &["--server", &server, "--token", &token]);
        lab.await_node(SERVER, "node-2", "True");
        lab.until("DNS for another machine of the cluster", |lab| {
            let neighbour = lab.cluster().member("node-2").expect("a machine");
            let answer = neighbour.enter(|| ask(servers[0])).expect("a namespace")?;
            (answer.code == NO_ERROR && answer.records == 1).then_some(())
        });
    });
}
