//! A headless Service of 5,000 members with host names, like a StatefulSet, whose members are replaced one by one.
//! Every lookup is exact at every step.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use crate::support::{Decoded, decode, question};
use api::object::{Endpoint, EndpointSlice, SERVICE_NAME_LABEL, Service};
use dns::forward::Forwarder;
use dns::records::{Index, Settings};
use dns::server::{Responder, Server};
use dns::wire::Name;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

const MEMBERS: u16 = 5_000;
/// Maximum number of endpoints of a slice, as the controller writes them.
const SLICE_ENDPOINTS_MAX: usize = 100;
/// One member in this many is replaced.
const REPLACED_EVERY: usize = 100;
/// Addresses that fit into a message of 65,535 bytes with the other sections.
const WHOLE_ANSWER_MIN: usize = 4_000;

/// One endpoint in one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Member {
    number: u16,
    /// Number of replacements.
    generation: u8,
    ready: bool,
}

impl Member {
    /// Address, another one in each generation.
    fn address(self) -> Ipv4Addr {
        let [high, low] = self.number.to_be_bytes();
        Ipv4Addr::new(10, 64 + self.generation, high, low)
    }

    fn endpoint(self) -> Endpoint {
        let mut endpoint = Endpoint {
            addresses: vec![self.address().to_string().into()],
            hostname: Some(format!("db-{}", self.number).into()),
            ..Endpoint::default()
        };
        endpoint.conditions.ready = Some(self.ready);
        endpoint
    }
}

/// Slices as the controller has written them.
struct Fixture {
    index: Arc<Index>,
    slices: Vec<Vec<Member>>,
}

impl Fixture {
    fn new() -> Self {
        let index = Index::new(Settings::of(Name::from_text("cluster.local").expect("a name")));
        let mut service = Service::default();
        service.metadata.name = "db".to_owned();
        service.metadata.namespace = "ns".to_owned();
        service.spec.cluster_ip = "None".to_owned();
        index.apply_service(&service).expect("applied");
        let members: Vec<Member> = (0..MEMBERS)
            .map(|number| Member {
                number,
                generation: 0,
                ready: true,
            })
            .collect();
        let slices: Vec<Vec<Member>> = members.chunks(SLICE_ENDPOINTS_MAX).map(<[_]>::to_vec).collect();
        let fixture = Self {
            index: Arc::new(index),
            slices,
        };
        for number in 0..fixture.slices.len() {
            fixture.write(number);
        }
        fixture.index.set_synced();
        fixture
    }

    fn write(&self, number: usize) {
        let mut slice = EndpointSlice::default();
        slice.metadata.name = format!("db-{number}");
        slice.metadata.namespace = "ns".to_owned();
        let label = (SERVICE_NAME_LABEL.to_owned(), "db".to_owned());
        slice.metadata.labels.extend([label]);
        let members = self.slices.get(number).expect("a slice");
        slice.endpoints = members.iter().map(|member| member.endpoint()).collect();
        self.index.apply_slice(&slice).expect("applied");
    }

    fn place(&self, number: u16) -> (usize, usize) {
        let found = self.slices.iter().enumerate().find_map(|(slice, members)| {
            let at = members.iter().position(|member| member.number == number)?;
            Some((slice, at))
        });
        found.expect("the member is in a slice")
    }

    /// Replaces the member in four steps; calls `look` after each.
    async fn replace(&mut self, number: u16, mut look: impl AsyncFnMut(&Self)) {
        let (slice, at) = self.place(number);
        self.slices[slice][at].ready = false;
        self.write(slice);
        look(self).await;
        let old = self.slices[slice].remove(at);
        self.write(slice);
        look(self).await;
        // The replacement goes to a slice with room, often another one.
        let room = |members: &Vec<Member>| members.len() < SLICE_ENDPOINTS_MAX;
        let slice = self.slices.iter().rposition(room).expect("there is room");
        self.slices[slice].push(Member {
            generation: old.generation + 1,
            ready: false,
            ..old
        });
        self.write(slice);
        look(self).await;
        let (slice, at) = self.place(number);
        self.slices[slice][at].ready = true;
        self.write(slice);
        look(self).await;
    }

    fn ready(&self) -> BTreeSet<Ipv4Addr> {
        let members = self.slices.iter().flatten();
        members
            .filter(|member| member.ready)
            .map(|member| member.address())
            .collect()
    }

    fn ready_address(&self, number: u16) -> Option<Ipv4Addr> {
        let mut members = self.slices.iter().flatten();
        let member = members.find(|member| member.number == number && member.ready)?;
        Some(member.address())
    }
}

/// A client that counts its lookups.
struct LookupClient {
    socket: UdpSocket,
    stream: TcpStream,
    lookups: usize,
}

impl LookupClient {
    async fn connect(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a socket");
        socket.connect(server).await.expect("a route");
        Self {
            socket,
            stream: TcpStream::connect(server).await.expect("a connection"),
            lookups: 0,
        }
    }

    async fn over_udp(&mut self, name: &str) -> Decoded {
        self.lookups += 1;
        self.socket
            .send(&question(1, name, "A", Some(4_096)))
            .await
            .expect("sent");
        let mut buffer = [0; 4_096];
        let length = self.socket.recv(&mut buffer).await.expect("an answer");
        decode(&buffer[..length])
    }

    async fn over_tcp(&mut self, name: &str) -> Decoded {
        self.lookups += 1;
        let message = question(2, name, "A", None);
        let length = u16::try_from(message.len()).expect("short").to_be_bytes();
        self.stream
            .write_all(&[&length, message.as_slice()].concat())
            .await
            .expect("written");
        let mut answer = vec![0; usize::from(self.stream.read_u16().await.expect("a length"))];
        self.stream.read_exact(&mut answer).await.expect("an answer");
        decode(&answer)
    }

    /// Checks that the member has its name exactly while it is ready.
    async fn check_member(&mut self, fixture: &Fixture, number: u16) {
        let answer = self
            .over_udp(&format!("db-{number}.db.ns.svc.cluster.local."))
            .await;
        let expected = match fixture.ready_address(number) {
            Some(address) => (0, BTreeSet::from([address])),
            None => (3, BTreeSet::new()),
        };
        assert_eq!((answer.code, addresses(&answer)), expected, "db-{number}");
    }

    /// Checks that the Service has its ready members, as many as fit, and no others.
    async fn check_service(&mut self, fixture: &Fixture) {
        const NAME: &str = "db.ns.svc.cluster.local.";
        let ready = fixture.ready();
        for (answer, at_least) in [
            (self.over_udp(NAME).await, 200),
            (self.over_tcp(NAME).await, WHOLE_ANSWER_MIN),
        ] {
            let found = addresses(&answer);
            assert_eq!(answer.code, 0);
            assert!(answer.truncated, "not all of them fit, so TC is set");
            assert!(found.len() >= at_least, "{}", found.len());
            assert_eq!(found.len(), answer.answer.len(), "no address is repeated");
            assert!(found.is_subset(&ready), "{:?}", found.difference(&ready));
        }
    }
}

fn addresses(answer: &Decoded) -> BTreeSet<Ipv4Addr> {
    let texts = answer.answer.iter().filter_map(|row| row.rsplit(' ').next());
    texts.map(|text| text.parse().expect("an address")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn lookups_of_ready_members_succeed() {
    let mut fixture = Fixture::new();
    let responder = Arc::new(Responder::new(fixture.index.clone(), Forwarder::to(Vec::new())));
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::start(&[listen], responder).expect("a free port");
    let mut asking = LookupClient::connect(server.addresses()[0]).await;
    for replaced in (0..MEMBERS).step_by(REPLACED_EVERY) {
        fixture
            .replace(replaced, async |fixture| {
                asking.check_service(fixture).await;
                // The replaced member, its neighbours, and some far away.
                let others = (0..MEMBERS).skip(usize::from(replaced) % 700).step_by(700);
                for number in [replaced, (replaced + 1) % MEMBERS].into_iter().chain(others) {
                    asking.check_member(fixture, number).await;
                }
            })
            .await;
    }
    // The members that a full response omits change, so no member is always omitted.
    let mut seen = BTreeSet::new();
    let ready = fixture.ready();
    for _ in 0..usize::from(MEMBERS) {
        seen.extend(addresses(&asking.over_tcp("db.ns.svc.cluster.local.").await));
        if seen == ready {
            break;
        }
    }
    assert_eq!(seen, ready);
    for number in 0..MEMBERS {
        asking.check_member(&fixture, number).await;
    }
    assert!(asking.lookups > usize::from(MEMBERS) + 4 * 50 * 11);
}
