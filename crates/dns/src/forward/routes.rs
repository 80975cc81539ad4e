//! Which resolvers are asked about a name, and in which order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use super::identifiers::Identifiers;
use super::upstream::{ForwardError, Protocol, Spelling, Upstream};
use crate::wire::{Name, Question, Relayed, ResponseCode};

/// Resolvers asked about one question at most.
const TRIES: usize = 3;
/// How long a resolver is waited for before the next is asked beside it: several times what a resolver
/// nearby takes, far below what a client waits.
const HEDGE: Duration = Duration::from_millis(400);

/// In which order resolvers are asked. Those that are down come last in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Another one first each time, chosen at random.
    #[default]
    Random,
    /// One after the other.
    RoundRobin,
    /// As they were given.
    Sequential,
}

/// The resolvers of one zone.
#[derive(Debug)]
pub struct Group {
    upstreams: Vec<Arc<Upstream>>,
    policy: Policy,
    turn: AtomicUsize,
}

/// The resolvers of all zones.
#[derive(Debug)]
pub struct Routes {
    /// Zones in lower case with resolvers of their own, the longest first.
    stubs: Vec<(Name, Group)>,
    default: Group,
}

/// What [`Routes`] are made of.
#[derive(Clone, Debug, Default)]
pub struct RouteSettings {
    /// Resolvers for all names that no stub zone has.
    pub upstreams: Vec<SocketAddr>,
    /// Zones with resolvers of their own.
    pub stubs: Vec<StubZone>,
    /// In which order they are asked.
    pub policy: Policy,
    /// How they are asked.
    pub protocol: Protocol,
    /// In which spelling they are asked.
    pub spelling: Spelling,
}

/// A zone with resolvers of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StubZone {
    /// The zone; the root would be all names.
    pub zone: Name,
    /// Its resolvers.
    pub upstreams: Vec<SocketAddr>,
}

impl Routes {
    pub(super) fn new(settings: RouteSettings) -> Self {
        let identifiers = Arc::new(Identifiers::default());
        let group = |addresses: Vec<SocketAddr>| Group {
            upstreams: addresses
                .into_iter()
                .map(|address| {
                    Upstream::new(address, settings.protocol, settings.spelling, identifiers.clone())
                })
                .map(Arc::new)
                .collect(),
            policy: settings.policy,
            turn: AtomicUsize::new(0),
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

    /// Whether nobody can be asked about any name.
    pub fn is_empty(&self) -> bool {
        self.groups().all(|group| group.upstreams.is_empty())
    }

    /// The resolvers for a name, which is in lower case.
    pub fn group(&self, name: &Name) -> &Group {
        let stub = self.stubs.iter().find(|(zone, _)| name.is_within(zone));
        stub.map_or(&self.default, |(_, group)| group)
    }

    /// All resolvers.
    pub fn upstreams(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.groups().flat_map(|group| &group.upstreams)
    }

    fn groups(&self) -> impl Iterator<Item = &Group> {
        self.stubs.iter().map(|(_, group)| group).chain([&self.default])
    }
}

impl Group {
    /// Whether nobody can be asked.
    pub fn is_empty(&self) -> bool {
        self.upstreams.is_empty()
    }

    /// The resolvers.
    pub fn upstreams(&self) -> &[Arc<Upstream>] {
        &self.upstreams
    }

    /// Whether no resolver is well.
    pub fn is_broken(&self) -> bool {
        !self.upstreams.iter().any(|upstream| upstream.is_well())
    }

    /// Asks one resolver, and another beside it when the first fails or takes long. The first answer that is
    /// no failure wins; without one, a failure that a resolver answered is passed on.
    pub(super) async fn ask(&self, question: &Question) -> Result<Relayed, ForwardError> {
        let mut waiting = self.order().into_iter();
        let mut asked = JoinSet::new();
        let mut failure: Result<Relayed, ForwardError> = Err(ForwardError::NoUpstream);
        let start = |upstream: Arc<Upstream>, asked: &mut JoinSet<_>| {
            let question = *question;
            asked.spawn(async move { upstream.ask(&question).await });
        };
        loop {
            if let Some(upstream) = waiting.next() {
                start(upstream, &mut asked);
            }
            let hedge = async {
                match waiting.len() {
                    0 => std::future::pending().await,
                    _ => tokio::time::sleep(HEDGE).await,
                }
            };
            tokio::select! {
                () = hedge => {}
                ended = asked.join_next() => match ended {
                    Some(Ok(Ok(answer))) if !is_failure(&answer) => return Ok(answer),
                    Some(Ok(Ok(answer))) => failure = Ok(answer),
                    Some(Ok(Err(error))) => failure = failure.or(Err(error)),
                    Some(Err(error)) => tracing::error!(%error, "asking a resolver ended badly"),
                    None => return failure,
                },
            }
        }
    }

    /// The resolvers in the order in which they are asked about one question.
    fn order(&self) -> Vec<Arc<Upstream>> {
        let count = self.upstreams.len();
        let start = match self.policy {
            Policy::Random if count > 0 => fastrand::usize(..count),
            Policy::RoundRobin => self.turn.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
        let mut order: Vec<_> = (0..count)
            .filter_map(|at| self.upstreams.get((start + at) % count).cloned())
            .collect();
        order.sort_by_key(|upstream| !upstream.is_well());
        // A lonely resolver is asked twice: a lost datagram is more likely than a dead resolver.
        if let [alone] = order.as_slice() {
            order.push(alone.clone());
        }
        order.truncate(TRIES);
        order
    }
}

/// Whether another resolver may know better (as the C library thinks, too).
fn is_failure(answer: &Relayed) -> bool {
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
