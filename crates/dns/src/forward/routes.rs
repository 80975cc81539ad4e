//! Choice of resolvers for a name, and their order.
//!
//! A name in several stub zones has the resolvers of the longest one. A name in no stub zone has the default resolvers.
//! Healthy resolvers come first, in the order of the [`Policy`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use super::identifiers::Identifiers;
use super::upstream::{ForwardError, Protocol, QueryCase, Upstream};
use crate::wire::{Name, Question, ResolverResponse, ResponseCode};

/// Limit of queries to resolvers for one question.
const QUERIES_MAX: usize = 3;
/// Delay before the forwarder queries the next resolver in parallel. It is several times the response time of a near
/// resolver, and far below the timeouts of clients.
const HEDGE_DELAY: Duration = Duration::from_millis(400);

/// Order of resolvers. Resolvers that are down come last in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// A random first resolver for each query.
    #[default]
    Random,
    /// Each query starts with the next resolver.
    RoundRobin,
    /// The configured order.
    Sequential,
}

/// Resolvers of one zone.
#[derive(Debug)]
pub struct Group {
    upstreams: Vec<Arc<Upstream>>,
    policy: Policy,
    next_start: AtomicUsize,
}

/// Resolvers of all zones.
#[derive(Debug)]
pub struct Routes {
    /// Stub zones in lower case, longest name first.
    stubs: Vec<(Name, Group)>,
    default: Group,
}

/// Settings of [`Routes`].
#[derive(Clone, Debug, Default)]
pub struct RouteSettings {
    /// Resolvers for names outside of all stub zones.
    pub upstreams: Vec<SocketAddr>,
    /// Zones with resolvers of their own.
    pub stubs: Vec<StubZone>,
    /// Order of resolvers.
    pub policy: Policy,
    /// Transport of queries.
    pub protocol: Protocol,
    /// Case of letters in queries.
    pub query_case: QueryCase,
}

/// A zone with resolvers of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StubZone {
    /// Name of the zone.
    pub zone: Name,
    /// Resolvers of the zone.
    pub upstreams: Vec<SocketAddr>,
}

impl Routes {
    pub(super) fn new(settings: RouteSettings) -> Self {
        let identifiers = Arc::new(Identifiers::default());
        let group = |addresses: Vec<SocketAddr>| Group {
            upstreams: addresses
                .into_iter()
                .map(|address| {
                    Upstream::new(
                        address,
                        settings.protocol,
                        settings.query_case,
                        identifiers.clone(),
                    )
                })
                .map(Arc::new)
                .collect(),
            policy: settings.policy,
            next_start: AtomicUsize::new(0),
        };
        let mut stubs: Vec<_> = settings
            .stubs
            .into_iter()
            .map(|stub| (stub.zone.to_lower(), group(stub.upstreams)))
            .collect();
        stubs.sort_by_key(|(zone, _)| std::cmp::Reverse(zone.as_wire().len()));
        Self {
            stubs,
            default: group(settings.upstreams),
        }
    }

    /// Returns true if no resolver is configured for any name.
    pub fn is_empty(&self) -> bool {
        self.groups().all(|group| group.upstreams.is_empty())
    }

    /// Returns the resolvers for a name in lower case.
    pub fn group(&self, name: &Name) -> &Group {
        let stub = self.stubs.iter().find(|(zone, _)| name.is_within(zone));
        stub.map_or(&self.default, |(_, group)| group)
    }

    /// Returns all resolvers.
    pub fn upstreams(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.groups().flat_map(|group| &group.upstreams)
    }

    fn groups(&self) -> impl Iterator<Item = &Group> {
        self.stubs.iter().map(|(_, group)| group).chain([&self.default])
    }
}

impl Group {
    /// Returns true if the group has no resolver.
    pub fn is_empty(&self) -> bool {
        self.upstreams.is_empty()
    }

    /// Returns the resolvers.
    pub fn upstreams(&self) -> &[Arc<Upstream>] {
        &self.upstreams
    }

    /// Returns true if all resolvers are down.
    pub fn is_broken(&self) -> bool {
        !self.upstreams.iter().any(|upstream| upstream.is_healthy())
    }

    /// Queries one resolver, and the next one in parallel if the first fails or is slow. The result is the first
    /// successful response. Without one, the result is an error response, if a resolver sent one.
    pub(super) async fn query(&self, question: &Question) -> Result<ResolverResponse, ForwardError> {
        let mut waiting = self.order().into_iter();
        let mut queries = JoinSet::new();
        let mut failure: Result<ResolverResponse, ForwardError> = Err(ForwardError::NoUpstream);
        let start = |upstream: Arc<Upstream>, queries: &mut JoinSet<_>| {
            let question = *question;
            queries.spawn(async move { upstream.query(&question).await });
        };
        loop {
            if let Some(upstream) = waiting.next() {
                start(upstream, &mut queries);
            }
            let hedge = async {
                match waiting.len() {
                    0 => std::future::pending().await,
                    _ => tokio::time::sleep(HEDGE_DELAY).await,
                }
            };
            tokio::select! {
                () = hedge => {}
                ended = queries.join_next() => match ended {
                    Some(Ok(Ok(answer))) if !is_failure(&answer) => return Ok(answer),
                    Some(Ok(Ok(answer))) => failure = Ok(answer),
                    Some(Ok(Err(error))) => failure = failure.or(Err(error)),
                    Some(Err(error)) => tracing::error!(%error, "forwarded query task panicked"),
                    None => return failure,
                },
            }
        }
    }

    /// Returns the resolvers in query order for one question.
    fn order(&self) -> Vec<Arc<Upstream>> {
        let count = self.upstreams.len();
        let start = match self.policy {
            Policy::Random if count > 0 => fastrand::usize(..count),
            Policy::RoundRobin => self.next_start.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
        let mut order: Vec<_> = (0..count)
            .filter_map(|at| self.upstreams.get((start + at) % count).cloned())
            .collect();
        order.sort_by_key(|upstream| !upstream.is_healthy());
        // A single resolver gets two queries: a lost datagram is more likely than a failed resolver.
        if let [only] = order.as_slice() {
            order.push(only.clone());
        }
        order.truncate(QUERIES_MAX);
        order
    }
}

/// Returns true if another resolver may give a better response. glibc uses the same codes.
fn is_failure(answer: &ResolverResponse) -> bool {
    [
        ResponseCode::ServerFailure,
        ResponseCode::Refused,
        ResponseCode::NotImplemented,
        ResponseCode::FormatError,
    ]
    .iter()
    .any(|code| answer.code == *code as u16)
        || answer.code > 15
}
