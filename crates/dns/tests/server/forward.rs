//! Names outside of the cluster, with resolvers that respond, fail, are slow, or do not respond.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Decoded, decode, question};
use api::object::Pod;
use dns::forward::{CacheSettings, ForwardSettings, Forwarder, Policy as Order, RouteSettings, StubZone};
use dns::records::{Index, Settings};
use dns::server::{Policy, Responder, SearchList, Server};
use dns::wire::Name;
use dns::zone::Zone;
use tokio::net::UdpSocket;

/// Behaviour of a resolver.
#[derive(Clone, Copy, Debug)]
enum Behaviour {
    /// Responds with an address: TTL in seconds, delay in milliseconds.
    Answers(u8, u64),
    /// Responds with NXDOMAIN and a negative TTL of a minute.
    Denies,
    /// Responds with SERVFAIL.
    Fails,
    /// Does not respond.
    SendsNothing,
}

/// A resolver that counts its queries.
#[derive(Clone)]
struct Resolver {
    address: SocketAddr,
    behaviour: Arc<Mutex<Behaviour>>,
    queries: Arc<AtomicUsize>,
}

impl Resolver {
    async fn start(behaviour: Behaviour) -> Self {
        let socket = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a socket"));
        let this = Self {
            address: socket.local_addr().expect("bound"),
            behaviour: Arc::new(Mutex::new(behaviour)),
            queries: Arc::default(),
        };
        let (behaviour, queries) = (this.behaviour.clone(), this.queries.clone());
        tokio::spawn(async move {
            let mut buffer = [0; 512];
            while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
                queries.fetch_add(1, Ordering::SeqCst);
                let behaviour = *behaviour.lock().expect("not poisoned");
                if let Behaviour::Answers(_, milliseconds) = behaviour {
                    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
                }
                if let Some(answer) = answer(&buffer[..length], behaviour) {
                    socket.send_to(&answer, peer).await.expect("sent");
                }
            }
        });
        this
    }

    fn becomes(&self, behaviour: Behaviour) {
        *self.behaviour.lock().expect("not poisoned") = behaviour;
    }

    fn queries(&self) -> usize {
        self.queries.load(Ordering::SeqCst)
    }
}

fn answer(query: &[u8], behaviour: Behaviour) -> Option<Vec<u8>> {
    let end = 12 + query[12..].iter().position(|octet| *octet == 0)? + 5;
    let mut answer = query[..end].to_vec();
    answer[2..4].copy_from_slice(&[0x81, 0x80]);
    answer[6..12].fill(0);
    match behaviour {
        Behaviour::Answers(seconds, _) => {
            answer[7] = 1;
            answer.extend([0xC0, 12, 0, 1, 0, 1, 0, 0, 0, seconds, 0, 4, 192, 0, 2, 1]);
        }
        Behaviour::Denies => {
            answer[3] |= 3;
            answer[9] = 1;
            // SOA of the root: names of one byte, five numbers, a minute as the last.
            answer.extend([0, 0, 6, 0, 1, 0, 0, 0, 60, 0, 22, 0, 0]);
            answer.extend([0; 19]);
            answer.push(60);
        }
        Behaviour::Fails => answer[3] |= 2,
        Behaviour::SendsNothing => return None,
    }
    Some(answer)
}

fn settings(upstreams: &[&Resolver]) -> ForwardSettings {
    ForwardSettings {
        routes: RouteSettings {
            upstreams: upstreams.iter().map(|resolver| resolver.address).collect(),
            policy: Order::Sequential,
            ..RouteSettings::default()
        },
        ..ForwardSettings::default()
    }
}

fn name(text: &str) -> Name {
    Name::from_text(text).expect("a name")
}

fn serve(settings: ForwardSettings) -> Server {
    let index = Index::new(Settings::of(name("cluster.local")));
    index.set_synced();
    let responder = Responder::new(Arc::new(index), Forwarder::new(settings));
    Server::start(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 0))], Arc::new(responder)).expect("a free port")
}

/// Queries an address from `client`; returns the response and the TTL of its last record.
async fn query_from(client: IpAddr, server: &Server, name: &str) -> (Decoded, u32) {
    let socket = UdpSocket::bind((client, 0)).await.expect("a socket");
    socket.connect(server.addresses()[0]).await.expect("a route");
    socket.send(&question(5, name, "A", None)).await.expect("sent");
    let mut buffer = [0; 512];
    let received = tokio::time::timeout(Duration::from_secs(20), socket.recv(&mut buffer)).await;
    let length = received.expect("an answer").expect("received");
    let ttl = buffer[..length].len().checked_sub(10).map_or(0, |at| {
        u32::from_be_bytes([buffer[at], buffer[at + 1], buffer[at + 2], buffer[at + 3]])
    });
    (decode(&buffer[..length]), ttl)
}

async fn query(server: &Server, name: &str) -> Decoded {
    query_from(Ipv4Addr::LOCALHOST.into(), server, name).await.0
}

#[tokio::test(flavor = "multi_thread")]
async fn cached_answers_are_not_queried_again() {
    let resolver = Resolver::start(Behaviour::Answers(200, 0)).await;
    let server = serve(settings(&[&resolver]));
    for spelled in ["a.example.", "A.Example.", "a.EXAMPLE."] {
        let answer = query(&server, spelled).await;
        assert_eq!((answer.code, answer.name.as_str()), (0, spelled));
        assert_eq!(answer.answer, ["a.example. A 192.0.2.1"]);
    }
    assert_eq!(resolver.queries(), 1);
    resolver.becomes(Behaviour::Denies);
    for _ in 0..3 {
        let answer = query(&server, "nope.example.").await;
        assert_eq!((answer.code, answer.authority.len()), (3, 1));
    }
    assert_eq!(
        resolver.queries(),
        2,
        "negative answers are cached for the time in the SOA record"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_queries_share_one_upstream_query() {
    let resolver = Resolver::start(Behaviour::Answers(200, 250)).await;
    let server = Arc::new(serve(settings(&[&resolver])));
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let server = server.clone();
        clients.spawn(async move { query(&server, "a.example.").await });
    }
    let answers = clients.join_all().await;
    assert!(
        answers
            .iter()
            .all(|answer| answer.answer == ["a.example. A 192.0.2.1"])
    );
    // A late query may arrive after the first response, which is cached by then.
    assert_eq!(resolver.queries(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn zone_may_have_resolvers_of_its_own() {
    let (own, all) = (
        Resolver::start(Behaviour::Answers(200, 0)).await,
        Resolver::start(Behaviour::Denies).await,
    );
    let mut settings = settings(&[&all]);
    settings.routes.stubs = vec![StubZone {
        zone: name("Corp.example"),
        upstreams: vec![own.address],
    }];
    let server = serve(settings);
    assert_eq!(query(&server, "db.corp.example.").await.code, 0);
    assert_eq!(query(&server, "corp.example.").await.code, 0);
    assert_eq!(query(&server, "notcorp.example.").await.code, 3);
    assert_eq!((own.queries(), all.queries()), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_or_silent_resolver_is_skipped() {
    let working = Resolver::start(Behaviour::Answers(200, 0)).await;
    for failing in [Behaviour::Fails, Behaviour::SendsNothing] {
        let failing = Resolver::start(failing).await;
        let server = serve(settings(&[&failing, &working]));
        assert_eq!(query(&server, "a.example.").await.code, 0);
        assert_eq!(failing.queries(), 1);
    }
    let failing = Resolver::start(Behaviour::Fails).await;
    let server = serve(settings(&[&failing]));
    assert_eq!(query(&server, "a.example.").await.code, 2);
    let before = failing.queries();
    assert_eq!(query(&server, "a.example.").await.code, 2);
    assert_eq!(failing.queries(), before, "a failure is not retried at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn serves_stale_answer_if_upstream_fails() {
    let resolver = Resolver::start(Behaviour::Answers(1, 0)).await;
    let server = serve(settings(&[&resolver]));
    assert_eq!(query(&server, "a.example.").await.code, 0);
    resolver.becomes(Behaviour::SendsNothing);
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    for _ in 0..2 {
        let (answer, ttl) = query_from(Ipv4Addr::LOCALHOST.into(), &server, "a.example.").await;
        assert_eq!((answer.code, ttl), (0, 30));
        assert_eq!(answer.answer, ["a.example. A 192.0.2.1"]);
    }
    assert_eq!(
        query(&server, "b.example.").await.code,
        2,
        "what was never known fails"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_open_upstream_queries() {
    let resolver = Resolver::start(Behaviour::SendsNothing).await;
    let mut settings = settings(&[&resolver]);
    settings.open_queries_max = 2;
    settings.cache = CacheSettings {
        bytes_max: 0,
        ..CacheSettings::default()
    };
    let server = Arc::new(serve(settings));
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..10 {
        let server = server.clone();
        clients.spawn(async move { query(&server, &format!("{number}.example.")).await.code });
    }
    let mut codes = clients.join_all().await;
    codes.sort_unstable();
    assert_eq!(codes, [2; 10], "too many, or no answer: it failed in either case");
    assert!(resolver.queries() <= 4, "two questions, each twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_walks_the_search_list_of_a_pod() {
    let resolver = Resolver::start(Behaviour::Answers(200, 0)).await;
    let index = Index::new(Settings::of(name("cluster.local")));
    let pod_address = IpAddr::from([127, 13, 8, 1]);
    let mut pod = Pod::default();
    pod.metadata.name = "client".to_owned();
    pod.metadata.namespace = "ns".to_owned();
    pod.status.pod_ip = pod_address.to_string();
    index.apply_pod(&pod).expect("applied");
    let mut service = api::object::Service::default();
    service.metadata.name = "web".to_owned();
    service.metadata.namespace = "other".to_owned();
    service.spec.cluster_ip = "10.96.0.1".to_owned();
    index.apply_service(&service).expect("applied");
    index.set_synced();
    let policy = Policy {
        search: Some(SearchList::default()),
        ..Policy::default()
    };
    let zone = Arc::new(Zone::new(Arc::new(index)));
    let forwarder = Forwarder::new(settings(&[&resolver]));
    let responder = Responder::with_policy(zone, forwarder, policy, Arc::default());
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::start(&[listen], Arc::new(responder)).expect("a free port");

    let first = "www.example.ns.svc.cluster.local.";
    for _ in 0..2 {
        let (answer, _) = query_from(pod_address, &server, first).await;
        let expected = [
            "www.example.ns.svc.cluster.local. CNAME www.example.",
            "www.example. A 192.0.2.1",
        ];
        assert_eq!(
            (answer.code, answer.answer),
            (0, expected.map(str::to_owned).to_vec())
        );
    }
    assert_eq!(resolver.queries(), 1);
    let (answer, _) = query_from(pod_address, &server, "web.other.ns.svc.cluster.local.").await;
    let expected = [
        "web.other.ns.svc.cluster.local. CNAME web.other.svc.cluster.local.",
        "web.other.svc.cluster.local. A 10.96.0.1",
    ];
    assert_eq!(answer.answer, expected, "the zone is looked into first");
    assert_eq!(query(&server, first).await.code, 3, "not for others");
    resolver.becomes(Behaviour::Denies);
    let (answer, _) = query_from(pod_address, &server, "nope.example.ns.svc.cluster.local.").await;
    assert_eq!(
        (answer.code, answer.authority),
        (3, vec!["cluster.local. SOA soa".to_owned()])
    );
    resolver.becomes(Behaviour::Fails);
    let (answer, _) = query_from(pod_address, &server, "other.example.ns.svc.cluster.local.").await;
    assert_eq!(answer.code, 2, "what is not known is not denied");
}

/// A resolver that sends each query to `server` and counts it, like the resolver of a host that is configured to use
/// the cluster's.
async fn start_circle(socket: UdpSocket, server: SocketAddr, queries: Arc<AtomicUsize>) {
    let socket = Arc::new(socket);
    let mut buffer = [0; 512];
    while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
        queries.fetch_add(1, Ordering::SeqCst);
        let (query, socket) = (buffer[..length].to_vec(), socket.clone());
        tokio::spawn(async move {
            let onwards = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a socket");
            onwards.send_to(&query, server).await.expect("sent");
            let mut answer = [0; 512];
            let length = onwards.recv(&mut answer).await.expect("an answer");
            socket.send_to(&answer[..length], peer).await.expect("sent");
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forwarding_loop_ends() {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a socket");
    let mut settings = settings(&[]);
    settings.routes.upstreams = vec![socket.local_addr().expect("bound")];
    let server = serve(settings);
    let queries = Arc::new(AtomicUsize::new(0));
    tokio::spawn(start_circle(socket, server.addresses()[0], queries.clone()));
    assert_eq!(query(&server, "a.example.").await.code, 2);
    // A single upstream is queried twice; each returning query joins the open one.
    assert!((1..=2).contains(&queries.load(Ordering::SeqCst)), "{queries:?}");
}
