//! From a message to its answer, with or without help from upstream.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::answer::{Known, Outcome};
use super::clients::Clients;
use super::search::SearchList;
use crate::forward::{Admission, ForwardError, Forwarder, Given, Lookup};
use crate::metrics::{Counters, Ended, Metrics, Source};
use crate::records::{Index, PodIdentity, Scratch};
use crate::wire::{
    CLASS_IN, Query, Question, Reply, ResponseCode, UDP_OCTETS_MIN, kind, parse_query, reject,
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
    /// Clients that are answered; everybody if not given.
    pub clients: Option<Arc<Clients>>,
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
        if !self.allows(peer.address) {
            lane.counters.strangers.fetch_add(1, Ordering::Relaxed);
            let octets = Reply::new(&query, buffer, UDP_OCTETS_MIN).finish(ResponseCode::Refused);
            self.note(
                Some(&query),
                peer,
                message.len(),
                started,
                (buffer, octets),
                Source::Refusal,
                lane,
            );
            return Reaction::Send(octets);
        }
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

    /// Whether a client at this address is answered at all.
    pub fn allows(&self, client: IpAddr) -> bool {
        let clients = self.policy.clients.as_ref();
        clients.is_none_or(|clients| clients.allows(client))
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
            self.log(query, &ended, peer);
        }
    }

    /// Logs a query with what it is about and who asked, as far as Pods are known (DNS-26).
    fn log(&self, query: &Query, ended: &Ended, peer: Peer) {
        let index = self.zone.live();
        let about = index.metadata(&query.name);
        let about = about.as_ref();
        let client = index.pod_at(peer.address);
        tracing::info!(
            target: "query",
            client = %peer.address,
            client_namespace = client.as_deref().map(|pod| tracing::field::display(pod.namespace())),
            client_pod_name = client.as_deref().map(PodIdentity::name),
            transport = ?peer.transport,
            id = query.id,
            name = %query.name,
            kind = query.kind,
            object = about.map(|about| about.kind),
            namespace = about.map(|about| &*about.namespace),
            service = about.and_then(|about| about.service.as_deref()),
            endpoint = about.and_then(|about| about.endpoint.as_deref()),
            port_name = about.and_then(|about| about.port_name.as_deref()),
            protocol = about.and_then(|about| about.protocol.as_deref()),
            code = crate::metrics::code_name(ended.code),
            octets = ended.answer_octets,
            source = ?ended.source,
            seconds = ended.took.as_secs_f64(),
            "answered"
        );
    }
}
