//! Processing of a query message to its response, with or without a resolver.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use counting::client_network;

use super::answer::{AnswerOutcome, UpstreamState};
use super::clients::ClientAccessList;
use super::search::SearchList;
use crate::forward::{Admission, ForwardError, Forwarder, Lookup, UpstreamAnswer};
use crate::metrics::{Counters, Metrics, QueryRecord, Source};
use crate::records::{Index, PodIdentity, Scratch};
use crate::wire::{CLASS_IN, Query, Question, Reply, ResponseCode, UDP_BYTES_MIN, kind, parse_query, reject};
use crate::zone::Zone;

/// Limit of UDP responses in bytes, regardless of the client's EDNS payload size. Larger responses would be
/// fragmented, and would amplify attacks with forged sources.
pub const UDP_BYTES_MAX: usize = 4_096;

/// Transport of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// DNS over TLS (RFC 7858).
    Tls,
}

/// Client of a query and its transport.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Address of the client.
    pub address: IpAddr,
    /// Transport of the query.
    pub transport: Transport,
}

/// Result of processing a query message.
#[derive(Debug)]
pub enum Reaction {
    /// Send this many bytes of the buffer; nothing for 0.
    Send(usize),
    /// Send this many bytes, and refresh the cache entry with [`Responder::prefetch`].
    SendAndPrefetch(usize, Box<Question>),
    /// Query resolvers with [`Responder::complete`].
    Forward(Box<PendingQuery>),
    /// Transfer the zone, as [`crate::transfer`] writes it.
    Transfer(Box<Query>),
}

/// A query that waits for a resolver.
#[derive(Debug)]
pub struct PendingQuery {
    query: Query,
    facts: QueryFacts,
    /// First question for resolvers.
    question: Question,
    /// Permit that bounds the number of waiting queries.
    admission: Admission,
}

/// Facts about a query message that its metrics and its log line need.
#[derive(Clone, Copy, Debug)]
struct QueryFacts {
    peer: Peer,
    length: usize,
    start: Instant,
}

/// State that a worker reuses for each query, so that processing does not allocate.
#[derive(Debug)]
pub struct WorkerState {
    scratch: Scratch,
    pub(super) counters: Arc<Counters>,
}

impl WorkerState {
    /// Switches to the counters of `responder`. Threads of the runtime can serve several servers, one after the other.
    pub(super) fn use_counters_of(&mut self, responder: &Responder) {
        let counters = responder.metrics.shared();
        if !Arc::ptr_eq(&self.counters, &counters) {
            self.counters = counters;
        }
    }
}

/// Policy of a responder: clients, sizes, search lists, transfers and logging.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Allowed clients; `None` allows all.
    pub clients: Option<Arc<ClientAccessList>>,
    /// Limit of UDP responses to other hosts in bytes; 0 for [`UDP_BYTES_MAX`], which always applies to loopback
    /// addresses.
    pub udp_bytes_max: usize,
    /// Domains that follow the cluster's in the search list of Pods, if the server tries the names of search lists
    /// (DNS-25).
    pub search: Option<SearchList>,
    /// Networks that may transfer the zone (DNS-23).
    pub transfer_to: Vec<ipnet::IpNet>,
    /// Logs every query.
    pub log_queries: bool,
}

impl Policy {
    /// Returns the address by which the limits of a client count. Clients that the policy names count by their own
    /// address: Pods of a node share a /64, and so do Nodes. Other clients have all addresses of their network.
    pub(super) fn counted_client(&self, client: IpAddr) -> IpAddr {
        match &self.clients {
            Some(clients) if clients.allows(client) => client,
            _ => client_network(client),
        }
    }
}

/// Processes query messages.
#[derive(Debug)]
pub struct Responder {
    zone: Arc<Zone>,
    forwarder: Forwarder,
    policy: Policy,
    metrics: Arc<Metrics>,
}

impl Responder {
    /// Creates a responder with the default policy. It answers from `index`, and through `forwarder` for names
    /// outside of the zones.
    pub fn new(index: Arc<Index>, forwarder: Forwarder) -> Self {
        Self::with_policy(
            Arc::new(Zone::new(index)),
            forwarder,
            Policy::default(),
            Arc::default(),
        )
    }

    /// Creates a responder with all of its parts given.
    pub fn with_policy(zone: Arc<Zone>, forwarder: Forwarder, policy: Policy, metrics: Arc<Metrics>) -> Self {
        Self {
            zone,
            forwarder,
            policy,
            metrics,
        }
    }

    /// Returns the state of a new worker.
    pub fn worker_state(&self) -> WorkerState {
        WorkerState {
            scratch: Scratch::default(),
            counters: self.metrics.register_worker(),
        }
    }

    /// Returns state for a thread that belongs to no worker.
    pub(super) fn shared_state(&self) -> WorkerState {
        WorkerState {
            scratch: Scratch::default(),
            counters: self.metrics.shared(),
        }
    }

    /// Returns state whose queries do not appear in the metrics.
    pub fn uncounted_state(&self) -> WorkerState {
        WorkerState {
            scratch: Scratch::default(),
            counters: Arc::default(),
        }
    }

    /// Returns the metrics.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Returns the zone.
    pub fn zone(&self) -> &Arc<Zone> {
        &self.zone
    }

    /// Returns the forwarder for names outside of the zones.
    pub fn forwarder(&self) -> &Forwarder {
        &self.forwarder
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Processes a message and writes the response into `buffer`, unless a resolver is needed. Allocates only
    /// for a query that is forwarded, prefetched or a zone transfer.
    pub fn respond(
        &self,
        message: &[u8],
        peer: Peer,
        buffer: &mut [u8],
        state: &mut WorkerState,
    ) -> Reaction {
        let facts = QueryFacts {
            peer,
            length: message.len(),
            start: Instant::now(),
        };
        let query = match parse_query(message) {
            Ok(query) => query,
            Err(error) => {
                let length = reject(error, buffer);
                self.record(facts, None, (buffer, length), Source::Refusal, state);
                return Reaction::Send(length);
            }
        };
        if !self.allows(peer.address) {
            return self.refuse(facts, &query, buffer, state);
        }
        if self.may_transfer(&query, peer) {
            return Reaction::Transfer(Box::new(query));
        }
        let mut to_prefetch = None;
        let upstream = |question: &Question| match self.forwarder.lookup(question) {
            Lookup::Hit { answer, prefetch } => {
                if prefetch {
                    to_prefetch = Some(Box::new(*question));
                }
                UpstreamState::Answered(answer)
            }
            Lookup::Miss => UpstreamState::Pending,
        };
        let (length, source) = match self.answer(&query, peer, buffer, &mut state.scratch, upstream) {
            AnswerOutcome::Complete(length, source) => (length, source),
            AnswerOutcome::NeedsUpstream(question) => match self.admit(peer) {
                Some(admission) => {
                    return Reaction::Forward(Box::new(PendingQuery {
                        query,
                        facts,
                        question: *question,
                        admission,
                    }));
                }
                None => {
                    let overloaded = Reply::new(&query, buffer, UDP_BYTES_MAX);
                    (overloaded.finish(ResponseCode::Refused), Source::Refusal)
                }
            },
        };
        self.record(facts, Some(&query), (buffer, length), source, state);
        match to_prefetch {
            Some(question) => Reaction::SendAndPrefetch(length, question),
            None => Reaction::Send(length),
        }
    }

    /// Refuses a query of a client that may not query.
    fn refuse(&self, facts: QueryFacts, query: &Query, buffer: &mut [u8], state: &WorkerState) -> Reaction {
        state.counters.clients_refused.fetch_add(1, Ordering::Relaxed);
        let length = Reply::new(query, buffer, UDP_BYTES_MIN).finish(ResponseCode::Refused);
        self.record(facts, Some(query), (buffer, length), Source::Refusal, state);
        Reaction::Send(length)
    }

    /// Returns a permit to wait for resolvers, or `None` if a limit is reached.
    fn admit(&self, peer: Peer) -> Option<Admission> {
        self.forwarder.admit(self.policy.counted_client(peer.address))
    }

    /// Completes a query with resolvers and returns the response.
    pub async fn complete(&self, pending: PendingQuery) -> Vec<u8> {
        let PendingQuery {
            query,
            facts,
            mut question,
            admission,
        } = pending;
        let peer = facts.peer;
        let mut results: Vec<(Question, Result<UpstreamAnswer, Arc<ForwardError>>)> = Vec::new();
        let mut state = self.shared_state();
        let mut buffer = Vec::new();
        // Each round queries one name of the search list, or the target of an alias.
        let (length, source) = loop {
            let client = self.policy.counted_client(peer.address);
            let result = self.forwarder.resolve(&question, client).await;
            if let Err(error) = &result {
                tracing::debug!(name = %question.name, %error, "forwarded query failed");
            }
            results.push((question, result));
            buffer.resize(self.limit(&query, peer), 0);
            let upstream = |requested: &Question| {
                let result = results
                    .iter()
                    .find(|(question, _)| question.name == requested.name && question.kind == requested.kind);
                match result {
                    Some((_, Ok(answer))) => UpstreamState::Answered(answer.clone()),
                    Some((_, Err(_))) => UpstreamState::Failed,
                    None => UpstreamState::Pending,
                }
            };
            match self.answer(&query, peer, &mut buffer, &mut state.scratch, upstream) {
                AnswerOutcome::Complete(length, source) => break (length, source),
                AnswerOutcome::NeedsUpstream(next) if results.len() <= SearchList::NAMES_MAX => {
                    question = *next
                }
                AnswerOutcome::NeedsUpstream(_) => {
                    let reply = self.reply(&query, peer, &mut buffer);
                    break (reply.finish(ResponseCode::ServerFailure), Source::Upstream);
                }
            }
        };
        drop(admission);
        self.record(facts, Some(&query), (&buffer, length), source, &state);
        buffer.truncate(length);
        buffer
    }

    /// Refreshes a cache entry before it expires. Must be called within a tokio runtime.
    pub fn prefetch(&self, question: &Question) {
        self.forwarder.prefetch(question);
    }

    /// Returns true if the policy allows a client.
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

    /// Counts and logs a query; `query` is `None` if the message is malformed.
    fn record(
        &self,
        facts: QueryFacts,
        query: Option<&Query>,
        (buffer, length): (&[u8], usize),
        source: Source,
        state: &WorkerState,
    ) {
        // The response code is in the low bits of the second byte of flags.
        let code = buffer
            .get(3)
            .filter(|_| length > 0)
            .map_or(0, |flags| u16::from(flags & 0xF));
        let record = QueryRecord {
            protocol: facts.peer.transport as usize,
            is_ipv6: facts.peer.address.is_ipv6(),
            kind: query.map(|query| query.kind),
            dnssec_ok: query.is_some_and(|query| query.edns.is_some_and(|edns| edns.dnssec_ok)),
            query_bytes: facts.length,
            response_bytes: length,
            code,
            source,
            duration: facts.start.elapsed(),
        };
        state.counters.count(&record);
        if self.policy.log_queries
            && let Some(query) = query
        {
            self.log(query, &record, facts.peer);
        }
    }

    /// Logs a query with the object that its name belongs to and the Pod that sent it (DNS-26).
    fn log(&self, query: &Query, record: &QueryRecord, peer: Peer) {
        let index = self.zone.live();
        let metadata = index.metadata(&query.name);
        let object = metadata.as_ref();
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
            object = object.map(|object| object.kind),
            namespace = object.map(|object| &*object.namespace),
            service = object.and_then(|object| object.service.as_deref()),
            endpoint = object.and_then(|object| object.endpoint.as_deref()),
            port_name = object.and_then(|object| object.port_name.as_deref()),
            protocol = object.and_then(|object| object.protocol.as_deref()),
            code = crate::metrics::code_name(record.code),
            bytes = record.response_bytes,
            source = ?record.source,
            seconds = record.duration.as_secs_f64(),
            "query"
        );
    }
}
