//! Unpredictable parts of forwarded queries: source port, identifier, and the case of letters.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use crate::support::{Decoded, decode, question};
use dns::forward::{CacheSettings, ForwardSettings, Forwarder, QueryCase, RouteSettings};
use dns::records::{Index, Settings};
use dns::server::{Responder, Server};
use dns::wire::Name;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

const SERVER_FAILURE: u16 = 2;

/// Handling of letter case by a resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Repeats,
    Loses,
    /// Omits the question.
    Absent,
}

/// A question as received.
#[derive(Clone, Debug)]
struct ReceivedQuestion {
    port: u16,
    id: [u8; 2],
    name: Vec<u8>,
}

/// A resolver that returns one address for every name and records its UDP queries.
struct Resolver {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<ReceivedQuestion>>>,
}

impl Resolver {
    async fn start(over_udp: Case, over_tcp: Case) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let socket = UdpSocket::bind(address).await.expect("the same port");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let keep = seen.clone();
        tokio::spawn(async move {
            let mut buffer = [0; 512];
            while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
                let query = &buffer[..length];
                keep.lock().expect("not poisoned").push(ReceivedQuestion {
                    port: peer.port(),
                    id: [query[0], query[1]],
                    name: query[12..name_end(query)].to_vec(),
                });
                socket
                    .send_to(&answer(query, over_udp), peer)
                    .await
                    .expect("sent");
            }
        });
        if over_tcp != Case::Absent {
            tokio::spawn(async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    let mut query = vec![0; usize::from(stream.read_u16().await.expect("a length"))];
                    stream.read_exact(&mut query).await.expect("a query");
                    let answer = answer(&query, over_tcp);
                    let length = u16::try_from(answer.len()).expect("short").to_be_bytes();
                    stream
                        .write_all(&[&length, answer.as_slice()].concat())
                        .await
                        .expect("written");
                }
            });
        }
        Self { address, seen }
    }

    fn seen(&self) -> Vec<ReceivedQuestion> {
        self.seen.lock().expect("not poisoned").clone()
    }
}

fn name_end(query: &[u8]) -> usize {
    12 + query[12..].iter().position(|octet| *octet == 0).expect("a name") + 1
}

fn answer(query: &[u8], case: Case) -> Vec<u8> {
    let end = name_end(query);
    let mut answer = query[..end + 4].to_vec();
    if case == Case::Loses {
        answer[12..end].make_ascii_lowercase();
    }
    answer[2..4].copy_from_slice(&[0x81, 0x80]);
    answer[6..12].fill(0);
    answer[7] = 1;
    answer.extend([0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
    answer
}

fn serve(resolver: &Resolver, query_case: QueryCase) -> Server {
    let index = Index::new(Settings::of(Name::from_text("cluster.local").expect("a name")));
    index.set_synced();
    let settings = ForwardSettings {
        routes: RouteSettings {
            upstreams: vec![resolver.address],
            query_case,
            ..RouteSettings::default()
        },
        // Every query is forwarded.
        cache: CacheSettings {
            bytes_max: 0,
            ..CacheSettings::default()
        },
        ..ForwardSettings::default()
    };
    let responder = Responder::new(Arc::new(index), Forwarder::new(settings));
    Server::start(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 0))], Arc::new(responder)).expect("a free port")
}

async fn query(server: &Server, name: &str) -> Decoded {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a socket");
    socket.connect(server.addresses()[0]).await.expect("a route");
    socket.send(&question(7, name, "A", None)).await.expect("sent");
    let mut buffer = [0; 512];
    let length = socket.recv(&mut buffer).await.expect("an answer");
    decode(&buffer[..length])
}

#[tokio::test(flavor = "multi_thread")]
async fn upstream_queries_are_unpredictable() {
    const QUESTIONS: usize = 200;
    let resolver = Resolver::start(Case::Repeats, Case::Absent).await;
    let server = serve(&resolver, QueryCase::Random);
    for at in 0..QUESTIONS {
        let name = format!("Host-{at}.Example.COM.");
        let answer = query(&server, &name).await;
        assert_eq!((answer.code, answer.answer.len()), (0, 1));
        assert_eq!(answer.name, name, "the client's own spelling comes back");
    }
    let seen = resolver.seen();
    assert_eq!(seen.len(), QUESTIONS);
    let distinct =
        |of: &dyn Fn(&ReceivedQuestion) -> Vec<u8>| seen.iter().map(of).collect::<HashSet<_>>().len();
    let ports = distinct(&|seen| seen.port.to_be_bytes().to_vec());
    let ids = distinct(&|seen| seen.id.to_vec());
    // Out of 28,000 ports and 65,536 identifiers, some of 200 coincide.
    assert!(ports > QUESTIONS * 9 / 10, "{ports} ports");
    assert!(ids > QUESTIONS * 9 / 10, "{ids} identifiers");
    let cases = distinct(&|seen| {
        let letters = seen.name.iter().filter(|octet| octet.is_ascii_alphabetic());
        letters
            .map(|letter| u8::from(letter.is_ascii_uppercase()))
            .collect()
    });
    assert!(cases > QUESTIONS * 9 / 10, "{cases} spellings");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_udp_response_in_other_case() {
    let resolver = Resolver::start(Case::Loses, Case::Absent).await;
    // Nothing listens there over TCP, so the query fails.
    let server = serve(&resolver, QueryCase::Random);
    let answer = query(&server, "www.a-long-name-with-letters.example.").await;
    assert_eq!((answer.code, answer.answer.len()), (SERVER_FAILURE, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn response_in_other_case_is_retried_over_tcp() {
    let resolver = Resolver::start(Case::Loses, Case::Repeats).await;
    let server = serve(&resolver, QueryCase::Random);
    for _ in 0..2 {
        let answer = query(&server, "www.a-long-name-with-letters.example.").await;
        assert_eq!((answer.code, answer.answer.len()), (0, 1));
    }
    // Over TCP the case was preserved, so datagrams in another case still count as forged.
    let lower = |seen: &ReceivedQuestion| seen.name == seen.name.to_ascii_lowercase();
    assert!(!resolver.seen().iter().any(lower));
}

#[tokio::test(flavor = "multi_thread")]
async fn resolver_without_case_gets_clients_case() {
    let resolver = Resolver::start(Case::Loses, Case::Loses).await;
    let server = serve(&resolver, QueryCase::Random);
    for _ in 0..3 {
        let answer = query(&server, "www.a-long-name-with-letters.example.").await;
        assert_eq!((answer.code, answer.answer.len()), (0, 1));
    }
    let seen = resolver.seen();
    let lower = |seen: &ReceivedQuestion| seen.name == seen.name.to_ascii_lowercase();
    assert!(!lower(&seen[0]));
    assert!(
        seen[1..].iter().all(lower),
        "a resolver that changes the case over TCP gets names in lower case"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_client_case_if_configured() {
    let resolver = Resolver::start(Case::Loses, Case::Absent).await;
    let server = serve(&resolver, QueryCase::Client);
    let answer = query(&server, "www.Example.com.").await;
    assert_eq!((answer.code, answer.answer.len()), (0, 1));
}
