//! Names that are not the cluster's: asked upstream, kept in a cache.
//!
//! Questions for the same are asked once, however many clients wait for the answer. How many questions are
//! open, and how many clients wait, is bounded.

mod cache;
mod identifiers;
mod metrics;
mod resolv_conf;
mod routes;
mod upstream;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

pub use cache::{Cache, CacheSettings, Cached, EntryKind, Second, Served};
pub use resolv_conf::{ResolvConf, ResolvConfError, read_resolv_conf};
pub use routes::{Group, Policy, RouteSettings, Routes, StubZone};
pub use upstream::{ForwardError, Protocol, Spelling, Upstream};

use crate::wire::{Name, QUESTION_KEY_OCTETS_MAX, Query, Question, Relayed};
use metrics::ForwardCounters;

/// Questions that may be open upstream at once: the `max_concurrent` of kubeadm's Corefile (DNS-28).
/// Each holds a socket and a buffer.
pub const OPEN_MAX: usize = 1_000;
/// Clients that may wait for answers at once, most of them for the same. Each holds a query and a task.
const WAITING_MAX: usize = 10_000;
/// How long upstream is waited for when there is a stale answer (RFC 8767 section 5).
const STALE_PATIENCE: Duration = Duration::from_millis(1_800);

/// What a forwarder is told.
#[derive(Clone, Debug, Default)]
pub struct ForwardSettings {
    /// Who is asked about what.
    pub routes: RouteSettings,
    /// What is kept.
    pub cache: CacheSettings,
    /// Questions that may be open upstream at once; [`OPEN_MAX`] for 0.
    pub open_max: usize,
}

/// The resolvers upstream, behind a cache. Clones share both.
#[derive(Clone, Debug)]
pub struct Forwarder {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    routes: Routes,
    cache: Cache,
    /// Questions that are open, by their keys.
    open: Mutex<HashMap<Box<[u8]>, watch::Receiver<Option<Outcome>>>>,
    places: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    started: Instant,
    counters: ForwardCounters,
}

/// How a question ended, for all who wait.
type Outcome = Result<Arc<Relayed>, Arc<ForwardError>>;

/// Leave to wait for one answer; see [`Forwarder::admit`].
#[derive(Debug)]
pub struct Admission(#[allow(dead_code)] OwnedSemaphorePermit); // held for its drop

/// An answer.
#[derive(Clone, Debug)]
pub enum Given {
    /// From the cache.
    Cached(Served),
    /// From upstream, just now.
    Fresh(Arc<Relayed>),
}

impl Given {
    /// The message.
    pub fn relayed(&self) -> &Relayed {
        match self {
            Self::Cached(served) => served.relayed(),
            Self::Fresh(relayed) => relayed,
        }
    }

    /// The TTL to be given out for one that came as `seconds`.
    pub fn ttl(&self, seconds: u32) -> u32 {
        match self {
            Self::Cached(served) => served.ttl(seconds),
            Self::Fresh(_) => seconds,
        }
    }

    /// Writes it as the answer to `query`; returns its length.
    pub fn write(&self, query: &Query, buffer: &mut [u8], limit: usize) -> usize {
        self.relayed()
            .write(query, buffer, limit, |seconds| self.ttl(seconds))
    }
}

/// What can be said at once about a question.
#[derive(Debug)]
pub enum Lookup {
    /// This answer, which the caller should have fetched anew if `fetch` is set.
    Hit {
        /// The answer.
        given: Given,
        /// Whether [`Forwarder::fetch`] is to be called.
        fetch: bool,
    },
    /// Nothing: upstream must be asked.
    Miss,
}

impl Forwarder {
    /// Asks and keeps as told.
    pub fn new(settings: ForwardSettings) -> Self {
        let open_max = match settings.open_max {
            0 => OPEN_MAX,
            given => given.min(Semaphore::MAX_PERMITS),
        };
        Self {
            inner: Arc::new(Inner {
                routes: Routes::new(settings.routes),
                cache: Cache::new(settings.cache),
                open: Mutex::default(),
                places: Arc::new(Semaphore::new(open_max)),
                waiting: Arc::new(Semaphore::new(WAITING_MAX)),
                started: Instant::now(),
                counters: ForwardCounters::default(),
            }),
        }
    }

    /// Asks these resolvers about everything.
    pub fn to(upstreams: Vec<SocketAddr>) -> Self {
        Self::new(ForwardSettings {
            routes: RouteSettings {
                upstreams,
                ..RouteSettings::default()
            },
            ..ForwardSettings::default()
        })
    }

    /// Whether nobody can be asked about any name.
    pub fn is_empty(&self) -> bool {
        self.inner.routes.is_empty()
    }

    /// Whether somebody can be asked about a name.
    pub fn knows(&self, name: &Name) -> bool {
        !self.inner.routes.group(&name.to_lower()).is_empty()
    }

    /// Who is asked about what.
    pub fn routes(&self) -> &Routes {
        &self.inner.routes
    }

    /// What is kept.
    pub fn cache(&self) -> &Cache {
        &self.inner.cache
    }

    /// Leave to wait for one answer, as long as not too many do.
    pub fn admit(&self) -> Option<Admission> {
        self.inner.waiting.clone().try_acquire_owned().ok().map(Admission)
    }

    /// What the cache has, without waiting.
    pub fn lookup(&self, question: &Question) -> Lookup {
        let inner = &self.inner;
        let mut room = [0; QUESTION_KEY_OCTETS_MAX];
        let found = inner.cache.get(question.key(&mut room), inner.now());
        match found {
            Cached::Fresh { answer, fetch } => {
                inner.counters.hit(answer.kind());
                Lookup::Hit {
                    given: Given::Cached(answer),
                    fetch,
                }
            }
            Cached::StaleAtOnce(answer) => {
                inner.counters.hit(answer.kind());
                inner.counters.served_stale.fetch_add(1, Ordering::Relaxed);
                Lookup::Hit {
                    given: Given::Cached(answer),
                    fetch: false,
                }
            }
            Cached::Stale(_) | Cached::Nothing => Lookup::Miss,
        }
    }

    /// What the cache has, without counting it as a use by a client.
    pub fn peek(&self, question: &Question) -> Cached {
        let mut room = [0; QUESTION_KEY_OCTETS_MAX];
        self.inner.cache.get(question.key(&mut room), self.inner.now())
    }

    /// The answer to a question that [`Forwarder::lookup`] did not have. A stale one is given out if upstream
    /// fails or takes long.
    pub async fn resolve(&self, question: &Question) -> Result<Given, Arc<ForwardError>> {
        let inner = &self.inner;
        inner.counters.misses.fetch_add(1, Ordering::Relaxed);
        let mut room = [0; QUESTION_KEY_OCTETS_MAX];
        let key = question.key(&mut room);
        let stale = match inner.cache.get(key, inner.now()) {
            // Somebody else's question has been answered in the meantime.
            Cached::Fresh { answer, .. } => return Ok(Given::Cached(answer)),
            Cached::Stale(answer) | Cached::StaleAtOnce(answer) => Some(answer),
            Cached::Nothing => None,
        };
        let joined = inner.join(key, question);
        let failure = match (joined, &stale) {
            (Ok(open), None) => return outcome(open).await.map(Given::Fresh),
            (Ok(open), Some(_)) => match tokio::time::timeout(STALE_PATIENCE, outcome(open)).await {
                // A resolver that says it failed is no better than one that says nothing.
                Ok(Ok(answer)) if !matches!(answer.keep, crate::wire::Keep::Failure { .. }) => {
                    return Ok(Given::Fresh(answer));
                }
                Ok(Ok(_)) | Err(_) => None,
                Ok(Err(error)) => Some(error),
            },
            (Err(error), _) => Some(Arc::new(error)),
        };
        match (stale, failure) {
            (Some(answer), _) => {
                inner.counters.served_stale.fetch_add(1, Ordering::Relaxed);
                Ok(Given::Cached(answer))
            }
            (None, failure) => Err(failure.unwrap_or_else(|| Arc::new(ForwardError::Overloaded))),
        }
    }

    /// Has a question asked whose answer is still there, so that it stays. Must be called within a tokio
    /// runtime.
    pub fn fetch(&self, question: &Question) {
        let mut room = [0; QUESTION_KEY_OCTETS_MAX];
        self.inner.counters.prefetches.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = self.inner.join(question.key(&mut room), question) {
            tracing::debug!(name = %question.name, %error, "not fetched anew");
        }
    }
}

impl Inner {
    fn now(&self) -> Second {
        Second(u32::try_from(self.started.elapsed().as_secs()).unwrap_or(u32::MAX))
    }

    /// Joins those who wait for this question, or asks it.
    fn join(
        self: &Arc<Self>,
        key: &[u8],
        question: &Question,
    ) -> Result<watch::Receiver<Option<Outcome>>, ForwardError> {
        let mut open = self.open();
        if let Some(receiver) = open.get(key) {
            return Ok(receiver.clone());
        }
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            self.counters.rejects.fetch_add(1, Ordering::Relaxed);
            return Err(ForwardError::Overloaded);
        };
        let (sender, receiver) = watch::channel(None);
        open.insert(key.into(), receiver.clone());
        let asking = Asking {
            inner: self.clone(),
            key: key.into(),
            question: *question,
        };
        tokio::spawn(async move {
            let outcome = asking.ask().await;
            drop(asking);
            sender.send_replace(Some(outcome));
            drop(place);
        });
        Ok(receiver)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, watch::Receiver<Option<Outcome>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question that is open until this is dropped.
struct Asking {
    inner: Arc<Inner>,
    key: Box<[u8]>,
    question: Question,
}

impl Asking {
    async fn ask(&self) -> Outcome {
        let inner = &self.inner;
        let group = inner.routes.group(&self.question.name.to_lower());
        if group.is_broken() && !group.is_empty() {
            inner.counters.broken.fetch_add(1, Ordering::Relaxed);
        }
        let (answer, outcome) = match group.ask(&self.question).await {
            Ok(answer) => {
                let shared = Arc::new(answer);
                (shared.clone(), Ok(shared))
            }
            Err(error) => (Arc::new(Relayed::silence(&self.question)), Err(Arc::new(error))),
        };
        inner.cache.put(&self.key, answer, inner.now());
        outcome
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.inner.open().remove(&self.key);
    }
}

async fn outcome(mut open: watch::Receiver<Option<Outcome>>) -> Outcome {
    let ended = open.wait_for(Option::is_some).await;
    let outcome = ended.ok().and_then(|outcome| outcome.clone());
    // The task ended without an outcome only if it panicked.
    outcome.unwrap_or_else(|| Err(Arc::new(ForwardError::Overloaded)))
}

/// Leaves out of `upstreams` those that are this server itself, which would ask itself for ever.
/// `own` are this machine's addresses, for sockets that listen on all of them.
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
        tracing::warn!(%upstream, "left out as an upstream resolver: it is this server");
    }
    others
}

#[cfg(test)]
mod tests;
