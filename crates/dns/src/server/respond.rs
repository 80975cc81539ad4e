//! From a message to its answer, with or without help from upstream.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use super::search::{Candidate, SearchList};
use crate::forward::{Admission, ForwardError, Forwarder, Given, Lookup};
use crate::metrics::{Counters, Ended, Metrics, Source};
use crate::records::{Index, Resolution, Scratch};
use crate::wire::{
    CLASS_IN, NameRef, Query, Question, RecordValue, Records, Reply, ResponseCode, Section, TCP_OCTETS_MAX,
    kind, parse_query, reject,
};
use crate::zone::Zone;

/// Octets of an answer over UDP, however much the client says it can take: more would come in
/// fragments, and would make a forged source's victim pay.
pub const UDP_OCTETS_MAX: usize = 4_096;

/// How a message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// In a datagram.
    Udp,
    /// On a connection.
    Tcp,
    /// On a connection that is encrypted (RFC 7858).
    Tls,
}

/// Who asks, and how.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The client's address.
    pub address: IpAddr,
    /// How its message came.
    pub transport: Transport,
}

/// What is to be done with a message.
#[derive(Debug)]
pub enum Reaction {
    /// Send so many octets of the buffer; none for 0.
    Send(usize),
    /// The same, and have the question asked anew with [`Responder::fetch`].
    SendAndFetch(usize, Box<Question>),
    /// Ask upstream with [`Responder::complete`].
    Ask(Box<Pending>),
    /// Send the whole zone, as [`crate::transfer`] writes it.
    Transfer(Box<Query>),
}

/// A query that is answered with help from upstream.
#[derive(Debug)]
pub struct Pending {
    query: Query,
    peer: Peer,
    octets: usize,
    started: Instant,
    /// What is to be asked first.
    question: Question,
    /// Held until the answer is there, so that not too many are open.
    admission: Admission,
}

/// What one loop keeps from query to query, so that answering does not allocate.
#[derive(Debug)]
pub struct Lane {
    scratch: Scratch,
    pub(super) counters: Arc<Counters>,
}

impl Lane {
    /// Counts for `responder` from now on; threads outlive the servers that they worked for.
    pub(super) fn belongs_to(&mut self, responder: &Responder) {
        let counters = responder.metrics.shared();
        if !Arc::ptr_eq(&self.counters, &counters) {
            self.counters = counters;
        }
    }
}

/// What is answered besides the zone, and to whom.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Octets of an answer over UDP at most; [`UDP_OCTETS_MAX`] for 0.
    pub udp_octets_max: usize,
    /// The rest of the search list of this cluster's Pods, if it is walked for them (DNS-25).
    pub search: Option<SearchList>,
    /// Networks that may have the whole zone (DNS-23).
    pub transfer_to: Vec<ipnet::IpNet>,
    /// Whether every query is logged.
    pub log_queries: bool,
}

/// Answers messages.
#[derive(Debug)]
pub struct Responder {
    zone: Arc<Zone>,
    forwarder: Forwarder,
    policy: Policy,
    metrics: Arc<Metrics>,
}

/// What became of a query, in the end or for now.
enum Outcome {
    /// The answer is written.
    Done(usize, Source),
    /// This must be known first.
    Needs(Box<Question>),
}

/// What is known about a question.
enum Known {
    Given(Given),
    Failed,
    NotYet,
}

impl Responder {
    /// Answers from `index`, and through `forwarder` for what is not in its zones.
    pub fn new(index: Arc<Index>, forwarder: Forwarder) -> Self {
        Self::with_policy(
            Arc::new(Zone::new(index)),
            forwarder,
            Policy::default(),
            Arc::default(),
        )
    }

    /// The same with everything chosen.
    pub fn with_policy(zone: Arc<Zone>, forwarder: Forwarder, policy: Policy, metrics: Arc<Metrics>) -> Self {
        Self {
            zone,
            forwarder,
            policy,
            metrics,
        }
    }

    /// What one more loop needs.
    pub fn lane(&self) -> Lane {
        Lane {
            scratch: Scratch::default(),
            counters: self.metrics.lane(),
        }
    }

    /// What a thread needs that answers now and then.
    pub(super) fn shared_lane(&self) -> Lane {
        Lane {
            scratch: Scratch::default(),
            counters: self.metrics.shared(),
        }
    }

    /// What somebody needs who asks without being counted.
    pub fn lane_apart(&self) -> Lane {
        Lane {
            scratch: Scratch::default(),
            counters: Arc::default(),
        }
    }

    /// What is counted.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The zone.
    pub fn zone(&self) -> &Arc<Zone> {
        &self.zone
    }

    /// Who is asked about other names.
    pub fn forwarder(&self) -> &Forwarder {
        &self.forwarder
    }

    /// What is answered to whom.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Answers a message into `buffer`, or says that upstream must be asked. Does not allocate unless it
    /// must.
    pub fn respond(&self, message: &[u8], peer: Peer, buffer: &mut [u8], lane: &mut Lane) -> Reaction {
        let started = Instant::now();
        let query = match parse_query(message) {
            Ok(query) => query,
            Err(why) => {
                let octets = reject(why, buffer);
                self.note(
                    None,
                    peer,
                    message.len(),
                    started,
                    (buffer, octets),
                    Source::Refusal,
                    lane,
                );
                return Reaction::Send(octets);
            }
        };
        if self.may_transfer(&query, peer) {
            return Reaction::Transfer(Box::new(query));
        }
        let mut fetch = None;
        let known = |question: &Question| match self.forwarder.lookup(question) {
            Lookup::Hit { given, fetch: again } => {
                if again {
                    fetch = Some(Box::new(*question));
                }
                Known::Given(given)
            }
            Lookup::Miss => Known::NotYet,
        };
        let (octets, source) = match self.answer(&query, peer, buffer, &mut lane.scratch, known) {
            Outcome::Done(octets, source) => (octets, source),
            Outcome::Needs(question) => match self.forwarder.admit() {
                Some(admission) => {
                    return Reaction::Ask(Box::new(Pending {
                        query,
                        peer,
                        octets: message.len(),
                        started,
                        question: *question,
                        admission,
                    }));
                }
                None => {
                    let overloaded = Reply::new(&query, buffer, UDP_OCTETS_MAX);
                    (overloaded.finish(ResponseCode::Refused), Source::Refusal)
                }
            },
        };
        self.note(
            Some(&query),
            peer,
            message.len(),
            started,
            (buffer, octets),
            source,
            lane,
        );
        match fetch {
            Some(question) => Reaction::SendAndFetch(octets, question),
            None => Reaction::Send(octets),
        }
    }

    /// Answers a message with help from upstream.
    pub async fn complete(&self, pending: Pending) -> Vec<u8> {
        let Pending {
            query,
            peer,
            octets,
            started,
            mut question,
            admission,
        } = pending;
        let mut gathered: Vec<(Question, Result<Given, Arc<ForwardError>>)> = Vec::new();
        let mut lane = self.shared_lane();
        let mut buffer = Vec::new();
        // Each round asks one name of the search list, or the target of an alias.
        let (length, source) = loop {
            let outcome = self.forwarder.resolve(&question).await;
            if let Err(error) = &outcome {
                tracing::debug!(name = %question.name, %error, "no answer from upstream");
            }
            gathered.push((question, outcome));
            buffer.resize(self.limit(&query, peer.transport), 0);
            let known = |asked: &Question| {
                let found = gathered
                    .iter()
                    .find(|(question, _)| question.name == asked.name && question.kind == asked.kind);
                match found {
                    Some((_, Ok(given))) => Known::Given(given.clone()),
                    Some((_, Err(_))) => Known::Failed,
                    None => Known::NotYet,
                }
            };
            match self.answer(&query, peer, &mut buffer, &mut lane.scratch, known) {
                Outcome::Done(length, source) => break (length, source),
                Outcome::Needs(next) if gathered.len() <= SearchList::NAMES_MAX => question = *next,
                Outcome::Needs(_) => {
                    let reply = self.reply(&query, peer.transport, &mut buffer);
                    break (reply.finish(ResponseCode::ServerFailure), Source::Upstream);
                }
            }
        };
        drop(admission);
        self.note(
            Some(&query),
            peer,
            octets,
            started,
            (&buffer, length),
            source,
            &lane,
        );
        buffer.truncate(length);
        buffer
    }

    /// Has a question asked anew whose answer is still there. Must be called within a tokio runtime.
    pub fn fetch(&self, question: &Question) {
        self.forwarder.fetch(question);
    }

    /// Answers a query from the zone and from what is `known` of other names.
    fn answer(
        &self,
        query: &Query,
        peer: Peer,
        buffer: &mut [u8],
        scratch: &mut Scratch,
        mut known: impl FnMut(&Question) -> Known,
    ) -> Outcome {
        let mut reply = self.reply(query, peer.transport, buffer);
        if query.edns.is_some_and(|edns| edns.version != 0) {
            return Outcome::Done(reply.finish(ResponseCode::BadVersion), Source::Refusal);
        }
        if query.class != CLASS_IN {
            return Outcome::Done(reply.finish(ResponseCode::Refused), Source::Refusal);
        }
        match self.zone.resolve(&mut reply, scratch) {
            Resolution::Complete(ResponseCode::NameError) if self.policy.search.is_some() => {
                self.search(peer, reply, scratch, known)
            }
            Resolution::Complete(code) => Outcome::Done(reply.finish(code), Source::Cluster),
            // Nobody to ask: the alias alone is still an answer (the client may know more resolvers).
            Resolution::External(target) if !self.forwarder.knows(&target) => {
                Outcome::Done(reply.finish(ResponseCode::NoError), Source::Cluster)
            }
            Resolution::External(target) => {
                let question = Question::about(*target, query.kind);
                match known(&question) {
                    Known::Given(given) => {
                        let code = add_addresses(&mut reply, &given);
                        Outcome::Done(reply.finish(code), Source::Cluster)
                    }
                    Known::Failed => {
                        Outcome::Done(reply.finish(ResponseCode::ServerFailure), Source::Cluster)
                    }
                    Known::NotYet => Outcome::Needs(Box::new(question)),
                }
            }
            Resolution::Elsewhere if !self.forwarder.knows(&query.name) => {
                Outcome::Done(reply.finish(ResponseCode::Refused), Source::Refusal)
            }
            Resolution::Elsewhere => {
                let question = Question::of(query);
                match known(&question) {
                    Known::Given(given) => {
                        let source = source_of(&given);
                        let limit = self.limit(query, peer.transport);
                        Outcome::Done(given.write(query, buffer, limit), source)
                    }
                    Known::Failed => {
                        Outcome::Done(reply.finish(ResponseCode::ServerFailure), Source::Upstream)
                    }
                    Known::NotYet => Outcome::Needs(Box::new(question)),
                }
            }
        }
    }

    /// Walks the rest of a Pod's search list for it, where the first name on it does not exist (DNS-25). The
    /// reply says that it does not.
    fn search(
        &self,
        peer: Peer,
        mut reply: Reply<'_>,
        scratch: &mut Scratch,
        mut known: impl FnMut(&Question) -> Known,
    ) -> Outcome {
        let query = reply.query();
        let index = self.zone.live();
        let walk = self.policy.search.as_ref().and_then(|list| {
            let is_address = matches!(query.kind, kind::A | kind::AAAA);
            let namespace = index.namespace_of(peer.address).filter(|_| is_address)?;
            list.walk(&query.name, index.cluster_domain(), &namespace)
        });
        let Some(walk) = walk else {
            return Outcome::Done(reply.finish(ResponseCode::NameError), Source::Cluster);
        };
        for candidate in walk {
            reply.clear();
            match candidate {
                Candidate::Cluster(name) => match self.zone.lead_to(&mut reply, scratch, &name) {
                    Some(Resolution::Complete(code)) => {
                        return Outcome::Done(reply.finish(code), Source::Cluster);
                    }
                    Some(Resolution::External(target)) if self.forwarder.knows(&target) => {
                        let question = Question::about(*target, query.kind);
                        let code = match known(&question) {
                            Known::NotYet => return Outcome::Needs(Box::new(question)),
                            Known::Failed => ResponseCode::ServerFailure,
                            Known::Given(given) => add_addresses(&mut reply, &given),
                        };
                        return Outcome::Done(reply.finish(code), Source::Cluster);
                    }
                    _ => {}
                },
                Candidate::Elsewhere(name) if self.forwarder.knows(&name) => {
                    let question = Question::about(name, query.kind);
                    match known(&question) {
                        Known::Given(given) if given.relayed().code == ResponseCode::NameError as u16 => {}
                        Known::Given(given) if given.relayed().code == ResponseCode::NoError as u16 => {
                            let source = source_of(&given);
                            let alias = NameRef::Whole(name.as_wire());
                            let ttl = index.ttl_seconds();
                            let owner = NameRef::QUESTION;
                            if reply
                                .target(Section::Answer, owner, kind::CNAME, ttl, alias)
                                .is_err()
                            {
                                reply.set_truncated();
                            }
                            let code = add_addresses(&mut reply, &given);
                            return Outcome::Done(reply.finish(code), source);
                        }
                        Known::Given(_) | Known::Failed => {
                            return Outcome::Done(
                                reply.finish(ResponseCode::ServerFailure),
                                Source::Upstream,
                            );
                        }
                        Known::NotYet => return Outcome::Needs(Box::new(question)),
                    }
                }
                Candidate::Elsewhere(_) => {}
            }
        }
        reply.clear();
        let code = index.deny(&mut reply, scratch);
        Outcome::Done(reply.finish(code), Source::Cluster)
    }

    fn may_transfer(&self, query: &Query, peer: Peer) -> bool {
        matches!(query.kind, kind::AXFR | kind::IXFR)
            && query.class == CLASS_IN
            && peer.transport != Transport::Udp
            && query.name.to_lower() == *self.zone.live().cluster_domain()
            && self.zone.live().is_synced()
            && self
                .policy
                .transfer_to
                .iter()
                .any(|net| net.contains(&peer.address))
    }

    fn reply<'a>(&self, query: &'a Query, transport: Transport, buffer: &'a mut [u8]) -> Reply<'a> {
        let mut reply = Reply::new(query, buffer, self.limit(query, transport));
        if !self.forwarder.is_empty() {
            reply.set_recursion_available();
        }
        reply
    }

    fn limit(&self, query: &Query, transport: Transport) -> usize {
        let udp_octets_max = match self.policy.udp_octets_max {
            0 => UDP_OCTETS_MAX,
            given => given.min(UDP_OCTETS_MAX),
        };
        match transport {
            Transport::Udp => query.udp_limit(udp_octets_max),
            Transport::Tcp | Transport::Tls => TCP_OCTETS_MAX,
        }
    }

    #[allow(clippy::too_many_arguments)] // all that a line of the query log has
    fn note(
        &self,
        query: Option<&Query>,
        peer: Peer,
        query_octets: usize,
        started: Instant,
        (buffer, octets): (&[u8], usize),
        source: Source,
        lane: &Lane,
    ) {
        let low = buffer
            .get(3)
            .filter(|_| octets > 0)
            .map_or(0, |flags| u16::from(flags & 0xF));
        let ended = Ended {
            protocol: peer.transport as usize,
            is_ipv6: peer.address.is_ipv6(),
            kind: query.map(|query| query.kind),
            dnssec_ok: query.is_some_and(|query| query.edns.is_some_and(|edns| edns.dnssec_ok)),
            query_octets,
            answer_octets: octets,
            code: low,
            source,
            took: started.elapsed(),
        };
        lane.counters.count(&ended);
        if self.policy.log_queries
            && let Some(query) = query
        {
            tracing::info!(
                target: "query",
                client = %peer.address,
                transport = ?peer.transport,
                id = query.id,
                name = %query.name,
                kind = query.kind,
                code = crate::metrics::code_name(low),
                octets,
                source = ?source,
                seconds = ended.took.as_secs_f64(),
                "answered"
            );
        }
    }
}

fn source_of(given: &Given) -> Source {
    match given {
        Given::Cached(_) => Source::Cache,
        Given::Fresh(_) => Source::Upstream,
    }
}

/// Adds what upstream says about the name at the end of an alias; returns the code for all of it. An alias without
/// its addresses would read as: there are none.
fn add_addresses(reply: &mut Reply<'_>, given: &Given) -> ResponseCode {
    let is = |code: ResponseCode| given.relayed().code == code as u16;
    if !is(ResponseCode::NoError) && !is(ResponseCode::NameError) {
        return ResponseCode::ServerFailure;
    }
    for record in Records::of(given.relayed().message()) {
        let owner = NameRef::Whole(record.owner.as_wire());
        let ttl = given.ttl(record.ttl_seconds);
        let written = match record.value {
            RecordValue::A(address) => reply.address(Section::Answer, owner, ttl, address.into()),
            RecordValue::Aaaa(address) => reply.address(Section::Answer, owner, ttl, address.into()),
            RecordValue::Cname(name) => {
                let name = NameRef::Whole(name.as_wire());
                reply
                    .target(Section::Answer, owner, kind::CNAME, ttl, name)
                    .map(|_| ())
            }
        };
        if written.is_err() {
            reply.set_truncated();
            break;
        }
    }
    ResponseCode::NoError
}
