//! Forwarding of names outside of the cluster's zones, behind a cache.
//!
//! Concurrent queries for the same question share one forwarded query. The number of open forwarded queries and the
//! number of waiting clients are bounded, and so is the share of one client of both.

mod cache;
mod identifiers;
mod metrics;
mod resolv_conf;
mod routes;
mod upstream;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

pub use cache::{Cache, CacheLookup, CacheSecond, CacheSettings, EntryKind, ServedEntry};
pub use resolv_conf::{ResolvConf, ResolvConfError, read_resolv_conf};
pub use routes::{Group, Policy, RouteSettings, Routes, StubZone};
pub use upstream::{ForwardError, Protocol, QueryCase, Upstream};

use crate::client_shares::{ClientShare, ClientShares};
use crate::wire::{Name, QUESTION_KEY_BYTES_MAX, Query, Question, ResolverResponse};
use metrics::ForwardCounters;

/// Limit of open forwarded queries: the `max_concurrent` of kubeadm's Corefile (DNS-28). Each holds a socket and a
/// buffer.
pub const OPEN_QUERIES_MAX: usize = 1_000;
/// Limit of clients that wait for responses of resolvers; most of them share a forwarded query. Each holds a query and
/// a task.
const WAITING_CLIENTS_MAX: usize = 10_000;
/// Timeout of a forwarded query if there is a stale answer (RFC 8767 section 5).
const CLIENT_RESPONSE_TIMEOUT: Duration = Duration::from_millis(1_800);
/// Client address of queries by which the server refreshes its own cache.
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Settings of a forwarder.
#[derive(Clone, Debug, Default)]
pub struct ForwardSettings {
    /// Resolvers per zone.
    pub routes: RouteSettings,
    /// Settings of the cache.
    pub cache: CacheSettings,
    /// Limit of open forwarded queries; 0 for [`OPEN_QUERIES_MAX`].
    pub open_queries_max: usize,
}

/// Resolvers behind a cache. Clones share both.
#[derive(Clone, Debug)]
pub struct Forwarder {
    inner: Arc<Inner>,
}

/// State that all clones of a forwarder share.
#[derive(Debug)]
struct Inner {
    routes: Routes,
    cache: Cache,
    /// Open forwarded queries by the key of their question.
    open: Mutex<HashMap<Box<[u8]>, watch::Receiver<Option<ForwardResult>>>>,
    /// Permits for open forwarded queries.
    query_shares: ClientShares,
    /// Permits to wait for responses.
    client_shares: ClientShares,
    started: Instant,
    counters: ForwardCounters,
}

/// Result of a forwarded query, shared by all clients that wait for it.
type ForwardResult = Result<Arc<ResolverResponse>, Arc<ForwardError>>;

/// Permit to wait for one response; see [`Forwarder::admit`].
#[derive(Debug)]
pub struct Admission(#[expect(dead_code, reason = "its drop releases the permit")] ClientShare);

/// A response of a resolver.
#[derive(Clone, Debug)]
pub enum UpstreamAnswer {
    /// From the cache.
    Cached(ServedEntry),
    /// From a resolver, for this query.
    Fresh(Arc<ResolverResponse>),
}

impl UpstreamAnswer {
    /// Returns the message.
    pub fn relayed(&self) -> &ResolverResponse {
        match self {
            Self::Cached(served) => served.relayed(),
            Self::Fresh(relayed) => relayed,
        }
    }

    /// Returns the TTL to send for a record that arrived with `seconds`.
    pub fn ttl(&self, seconds: u32) -> u32 {
        match self {
            Self::Cached(served) => served.ttl(seconds),
            Self::Fresh(_) => seconds,
        }
    }

    /// Writes the message as the response to `query` and returns its length.
    pub fn write(&self, query: &Query, buffer: &mut [u8], limit: usize) -> usize {
        self.relayed()
            .write(query, buffer, limit, |seconds| self.ttl(seconds))
    }
}

/// Result of a cache lookup.
#[derive(Debug)]
pub enum Lookup {
    /// An answer. The caller calls [`Forwarder::prefetch`] if `prefetch` is set.
    Hit {
        /// Response from the cache.
        answer: UpstreamAnswer,
        /// True if the caller is to refresh the entry.
        prefetch: bool,
    },
    /// No usable answer; a forwarded query is needed.
    Miss,
}

impl Forwarder {
    /// Creates a forwarder with an empty cache.
    pub fn new(settings: ForwardSettings) -> Self {
        let open_queries_max = match settings.open_queries_max {
            0 => OPEN_QUERIES_MAX,
            max => max,
        };
        Self {
            inner: Arc::new(Inner {
                routes: Routes::new(settings.routes),
                cache: Cache::new(settings.cache),
                open: Mutex::default(),
                query_shares: ClientShares::of(open_queries_max),
                client_shares: ClientShares::of(WAITING_CLIENTS_MAX),
                started: Instant::now(),
                counters: ForwardCounters::default(),
            }),
        }
    }

    /// Creates a forwarder that uses these resolvers for all names.
    pub fn to(upstreams: Vec<SocketAddr>) -> Self {
        Self::new(ForwardSettings {
            routes: RouteSettings {
                upstreams,
                ..RouteSettings::default()
            },
            ..ForwardSettings::default()
        })
    }

    /// Returns true if no resolver is configured.
    pub fn is_empty(&self) -> bool {
        self.inner.routes.is_empty()
    }

    /// Returns true if a resolver is configured for a name.
    pub fn has_upstream_for(&self, name: &Name) -> bool {
        !self.inner.routes.group(&name.to_lower()).is_empty()
    }

    /// Returns the resolvers per zone.
    pub fn routes(&self) -> &Routes {
        &self.inner.routes
    }

    /// Returns the cache.
    pub fn cache(&self) -> &Cache {
        &self.inner.cache
    }

    /// Returns a permit to wait for one response, or `None` if too many clients wait, or this one waits for too many.
    pub fn admit(&self, client: IpAddr) -> Option<Admission> {
        self.inner.client_shares.take(client, 1).map(Admission)
    }

    /// Looks a question up in the cache, without waiting.
    pub fn lookup(&self, question: &Question) -> Lookup {
        let inner = &self.inner;
        let mut key_buffer = [0; QUESTION_KEY_BYTES_MAX];
        let found = inner.cache.get(question.key(&mut key_buffer), inner.now());
        match found {
            CacheLookup::Fresh { answer, prefetch } => {
                inner.counters.record_hit(answer.kind());
                Lookup::Hit {
                    answer: UpstreamAnswer::Cached(answer),
                    prefetch,
                }
            }
            CacheLookup::StaleAfterFailure(answer) => {
                inner.counters.record_hit(answer.kind());
                inner.counters.served_stale.fetch_add(1, Ordering::Relaxed);
                Lookup::Hit {
                    answer: UpstreamAnswer::Cached(answer),
                    prefetch: false,
                }
            }
            CacheLookup::Stale(_) | CacheLookup::Miss => Lookup::Miss,
        }
    }

    /// Looks a question up in the cache without counting a hit.
    pub fn peek(&self, question: &Question) -> CacheLookup {
        let mut key_buffer = [0; QUESTION_KEY_BYTES_MAX];
        self.inner
            .cache
            .get(question.key(&mut key_buffer), self.inner.now())
    }

    /// Resolves a question of a client that [`Forwarder::lookup`] missed. Returns a stale answer if the resolvers fail or
    /// exceed the client response timeout (RFC 8767).
    ///
    /// # Errors
    ///
    /// Returns the error of the forwarded query if there is no stale answer.
    pub async fn resolve(
        &self,
        question: &Question,
        client: IpAddr,
    ) -> Result<UpstreamAnswer, Arc<ForwardError>> {
        let inner = &self.inner;
        inner.counters.misses.fetch_add(1, Ordering::Relaxed);
        let mut key_buffer = [0; QUESTION_KEY_BYTES_MAX];
        let key = question.key(&mut key_buffer);
        let stale = match inner.cache.get(key, inner.now()) {
            // Another query has filled the cache since the lookup.
            CacheLookup::Fresh { answer, .. } => return Ok(UpstreamAnswer::Cached(answer)),
            CacheLookup::Stale(answer) | CacheLookup::StaleAfterFailure(answer) => Some(answer),
            CacheLookup::Miss => None,
        };
        let joined = inner.join(key, question, client);
        let failure = match (joined, &stale) {
            (Ok(open), None) => return wait_for_outcome(open).await.map(UpstreamAnswer::Fresh),
            (Ok(open), Some(_)) => {
                match tokio::time::timeout(CLIENT_RESPONSE_TIMEOUT, wait_for_outcome(open)).await {
                    // A SERVFAIL of a resolver has the same effect as a timeout.
                    Ok(Ok(answer))
                        if !matches!(answer.cache_policy, crate::wire::CachePolicy::Failure { .. }) =>
                    {
                        return Ok(UpstreamAnswer::Fresh(answer));
                    }
                    Ok(Ok(_)) | Err(_) => None,
                    Ok(Err(error)) => Some(error),
                }
            }
            (Err(error), _) => Some(Arc::new(error)),
        };
        match (stale, failure) {
            (Some(answer), _) => {
                inner.counters.served_stale.fetch_add(1, Ordering::Relaxed);
                Ok(UpstreamAnswer::Cached(answer))
            }
            (None, failure) => Err(failure.unwrap_or_else(|| Arc::new(ForwardError::Overloaded))),
        }
    }

    /// Starts a forwarded query that refreshes a cache entry before it expires. Must be called within a tokio
    /// runtime.
    pub fn prefetch(&self, question: &Question) {
        let mut key_buffer = [0; QUESTION_KEY_BYTES_MAX];
        self.inner.counters.prefetches.fetch_add(1, Ordering::Relaxed);
        let key = question.key(&mut key_buffer);
        if let Err(error) = self.inner.join(key, question, SERVER) {
            tracing::debug!(name = %question.name, %error, "prefetch not started");
        }
    }
}

impl Inner {
    fn now(&self) -> CacheSecond {
        CacheSecond(u32::try_from(self.started.elapsed().as_secs()).unwrap_or(u32::MAX))
    }

    /// Joins the open forwarded query for this question, or starts one, which counts for the client until its end.
    fn join(
        self: &Arc<Self>,
        key: &[u8],
        question: &Question,
        client: IpAddr,
    ) -> Result<watch::Receiver<Option<ForwardResult>>, ForwardError> {
        let mut open = self.open();
        if let Some(receiver) = open.get(key) {
            return Ok(receiver.clone());
        }
        let Some(share) = self.query_shares.take(client, 1) else {
            self.counters.rejects.fetch_add(1, Ordering::Relaxed);
            return Err(ForwardError::Overloaded);
        };
        let (sender, receiver) = watch::channel(None);
        open.insert(key.into(), receiver.clone());
        let query = OpenQuery {
            inner: self.clone(),
            key: key.into(),
            question: *question,
        };
        tokio::spawn(async move {
            let outcome = query.run().await;
            drop(query);
            sender.send_replace(Some(outcome));
            drop(share);
        });
        Ok(receiver)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, watch::Receiver<Option<ForwardResult>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open forwarded query; dropping it removes it from `Inner::open`.
struct OpenQuery {
    inner: Arc<Inner>,
    key: Box<[u8]>,
    question: Question,
}

impl OpenQuery {
    async fn run(&self) -> ForwardResult {
        let inner = &self.inner;
        let group = inner.routes.group(&self.question.name.to_lower());
        if group.is_broken() && !group.is_empty() {
            inner.counters.broken.fetch_add(1, Ordering::Relaxed);
        }
        let (answer, outcome) = match group.query(&self.question).await {
            Ok(answer) => {
                let shared = Arc::new(answer);
                (shared.clone(), Ok(shared))
            }
            Err(error) => (
                Arc::new(ResolverResponse::no_response(&self.question)),
                Err(Arc::new(error)),
            ),
        };
        inner.cache.put(&self.key, answer, inner.now());
        outcome
    }
}

impl Drop for OpenQuery {
    fn drop(&mut self) {
        self.inner.open().remove(&self.key);
    }
}

async fn wait_for_outcome(mut open: watch::Receiver<Option<ForwardResult>>) -> ForwardResult {
    let ended = open.wait_for(Option::is_some).await;
    let outcome = ended.ok().and_then(|outcome| outcome.clone());
    // Without an outcome, the task of the query panicked.
    outcome.unwrap_or_else(|| Err(Arc::new(ForwardError::Overloaded)))
}

/// Removes the addresses of this server from `upstreams`, since forwarding to itself would loop. `own` are the
/// addresses of this host, for sockets that listen on all of them.
pub fn without_self(upstreams: Vec<SocketAddr>, listen: &[SocketAddr], own: &[IpAddr]) -> Vec<SocketAddr> {
    let is_self = |upstream: &SocketAddr| {
        listen
            .iter()
            .filter(|listen| listen.port() == upstream.port())
            .any(|listen| {
                let everywhere = listen.ip().is_unspecified() && listen.is_ipv4() == upstream.is_ipv4();
                let here = upstream.ip().is_loopback() || own.contains(&upstream.ip());
                listen.ip() == upstream.ip() || everywhere && here
            })
    };
    let (selves, others): (Vec<_>, Vec<_>) = upstreams.into_iter().partition(is_self);
    for upstream in selves {
        tracing::warn!(%upstream, "resolver ignored; its address is that of this server");
    }
    others
}

#[cfg(test)]
mod tests;
