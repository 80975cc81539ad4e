//! Backends of a port: which of them takes a new connection or request, and how they are.

mod checks;
mod choice;
mod ejection;
mod health;
mod sticky;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use tokio::sync::watch;

use crate::http::Pool;
use crate::http::cookie::{Numbers, StickyKeys};
use crate::settings::{self, Listener, ServiceName, ServiceSettings, Stickiness};
pub(crate) use checks::check;
use choice::{Choice, Condition, Rank, Standing};
use ejection::Ejection;
use sticky::Sticky;

/// A backend. It stays the same as long as its address is among the port's.
#[derive(Debug)]
pub struct Backend {
    /// Where it is reached.
    pub address: SocketAddr,
    cookie_numbers: ArcSwapOption<Numbers>,
    pool: Arc<Pool>,
    under_way: AtomicUsize,
    connections: AtomicU64,
    failures: AtomicU64,
    is_healthy: AtomicBool,
    /// Whether [`Backend::ejection`] holds anything: most never fail.
    has_failed: AtomicBool,
    ejection: Mutex<Ejection>,
    /// Milliseconds since the port began.
    ejected_until: AtomicU64,
    last_failure: Mutex<Option<Failed>>,
    has_left: AtomicBool,
    cut: watch::Sender<bool>,
}

/// The last failure of a backend.
#[derive(Clone, Debug)]
pub struct Failed {
    /// When it was.
    pub at: Instant,
    /// What failed, for people.
    pub why: String,
}

impl Backend {
    fn new(address: SocketAddr) -> Self {
        Self {
            address,
            cookie_numbers: ArcSwapOption::empty(),
            pool: Arc::default(),
            under_way: AtomicUsize::new(0),
            connections: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            is_healthy: AtomicBool::new(true),
            has_failed: AtomicBool::new(false),
            ejection: Mutex::default(),
            ejected_until: AtomicU64::new(0),
            last_failure: Mutex::default(),
            has_left: AtomicBool::new(false),
            cut: watch::Sender::new(false),
        }
    }

    /// The numbers that stand for it in cookies of its Service: made when they are asked for first under these keys.
    pub fn cookie_numbers(&self, keys: &Arc<StickyKeys>, service: &ServiceName) -> Arc<Numbers> {
        let known = self.cookie_numbers.load();
        if let Some(known) = known.as_ref().filter(|known| known.are_of(keys)) {
            return Arc::clone(known);
        }
        let made = Arc::new(Numbers::new(keys, service, self.address));
        self.cookie_numbers.store(Some(Arc::clone(&made)));
        made
    }

    /// Connections that are kept for further requests.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Connections and requests under way.
    pub fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    /// Connections and requests that it was chosen for.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Connections to it that failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Whether health checks hold it for healthy, or there are none.
    pub fn is_healthy(&self) -> bool {
        self.is_healthy.load(Ordering::Relaxed)
    }

    /// What failed last: a connection to it, or a health check.
    pub fn last_failure(&self) -> Option<Failed> {
        self.last_failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Remembers why a connection to it or a health check has failed, in the place of what failed before.
    pub(crate) fn remember_failure(&self, why: String) {
        let failed = Failed {
            at: Instant::now(),
            why,
        };
        *self.last_failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failed);
    }

    /// Whether it is no more among the port's backends: connections that are kept for further requests are not used again.
    pub fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }

    /// Becomes true when it has left and the time is over that its connections were given to end by themselves.
    pub fn cut(&self) -> watch::Receiver<bool> {
        self.cut.subscribe()
    }

    /// Whether that time is over.
    pub(crate) fn is_cut_off(&self) -> bool {
        *self.cut.borrow()
    }

    /// Ends the time for its connections; see [`Backend::cut`].
    pub(crate) fn cut_off(&self) {
        self.cut.send_replace(true);
    }

    pub(crate) fn set_healthy(&self, is_healthy: bool) {
        self.is_healthy.store(is_healthy, Ordering::Relaxed);
    }

    /// Counts a connection that failed.
    fn failed(&self, now: Duration) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.has_failed.store(true, Ordering::Relaxed);
        let mut ejection = self.ejection.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = ejection.failed(now) {
            let until = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
            if self.ejected_until.swap(until, Ordering::Relaxed) != until {
                tracing::info!(backend = %self.address, "a backend refuses again and again, and is left in peace");
            }
        }
    }

    /// Counts a connection that stands.
    fn succeeded(&self) {
        if self.has_failed.load(Ordering::Relaxed) && self.has_failed.swap(false, Ordering::Relaxed) {
            let mut ejection = self.ejection.lock().unwrap_or_else(PoisonError::into_inner);
            ejection.succeeded();
            self.ejected_until.store(0, Ordering::Relaxed);
        }
    }

    fn is_ejected(&self, now: Duration) -> bool {
        let until = self.ejected_until.load(Ordering::Relaxed);
        until != 0 && now < Duration::from_millis(until)
    }
}

/// A backend that takes a connection or request. It counts as under way until this is dropped.
#[derive(Debug)]
pub struct Chosen {
    /// The backend.
    pub backend: Arc<Backend>,
}

impl Chosen {
    fn of(backend: &Arc<Backend>) -> Self {
        backend.under_way.fetch_add(1, Ordering::Relaxed);
        backend.connections.fetch_add(1, Ordering::Relaxed);
        Self {
            backend: backend.clone(),
        }
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        self.backend.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The backends of a port.
#[derive(Debug)]
pub struct Backends {
    began: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    candidates: Vec<Candidate>,
    choice: Choice,
    sticky: Option<Sticky>,
}

#[derive(Debug)]
struct Candidate {
    backend: Arc<Backend>,
    is_ready: bool,
    is_serving_while_terminating: bool,
    is_near: bool,
}

impl Candidate {
    fn of(backend: Arc<Backend>, settings: &settings::Backend, near: Option<&str>) -> Self {
        Self {
            backend,
            is_ready: settings.is_ready,
            is_serving_while_terminating: settings.is_serving_while_terminating,
            is_near: near.is_none_or(|near| settings.zone.as_deref() == Some(near)),
        }
    }

    fn standing(&self, now: Duration) -> Option<Standing> {
        let rank = Rank::of(Condition {
            is_ready: self.is_ready,
            is_serving_while_terminating: self.is_serving_while_terminating,
            is_healthy: self.backend.is_healthy(),
            is_ejected: self.backend.is_ejected(now),
            is_near: self.is_near,
        })?;
        let under_way = self.backend.under_way();
        Some(Standing { rank, under_way })
    }
}

impl Default for Backends {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            state: Mutex::default(),
        }
    }
}

impl Backends {
    /// Takes over which backends there are and how to choose; `zone` is the edge's own. Those whose address stays keep all
    /// that is known of them. Returns those that left.
    pub(crate) fn set(
        &self,
        service: &ServiceSettings,
        listener: &Listener,
        zone: Option<&str>,
    ) -> Vec<Arc<Backend>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let near = zone.filter(|_| !service.policy.is_cross_zone);
        let mut former = std::mem::take(&mut state.candidates);
        for settings in &listener.backends {
            if state
                .candidates
                .iter()
                .any(|candidate| candidate.backend.address == settings.address)
            {
                continue;
            }
            let known = former
                .iter()
                .position(|candidate| candidate.backend.address == settings.address);
            let backend = match known {
                Some(number) => former.swap_remove(number).backend,
                None => Arc::new(Backend::new(settings.address)),
            };
            state.candidates.push(Candidate::of(backend, settings, near));
        }
        let State {
            candidates,
            choice,
            sticky,
        } = &mut *state;
        let addresses: Vec<SocketAddr> = candidates
            .iter()
            .map(|candidate| candidate.backend.address)
            .collect();
        choice.set(service.policy.balance, &addresses);
        match (&service.policy.stickiness, &mut *sticky) {
            (Stickiness::Source { timeout }, Some(sticky)) => {
                sticky.set_timeout(*timeout);
                sticky.keep_only(|address| addresses.contains(&address));
            }
            (Stickiness::Source { timeout }, none) => *none = Some(Sticky::new(*timeout)),
            (Stickiness::None | Stickiness::Cookie { .. }, sticky) => *sticky = None,
        }
        let left = former.into_iter().map(|candidate| candidate.backend);
        left.inspect(|backend| {
            backend.has_left.store(true, Ordering::Relaxed);
            backend.pool.clear();
        })
        .collect()
    }

    /// The backends, in the order of the settings.
    pub fn all(&self) -> Vec<Arc<Backend>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state
            .candidates
            .iter()
            .map(|candidate| candidate.backend.clone())
            .collect()
    }

    /// The backend for a client's new connection or request, none of those that were tried in vain.
    pub fn choose(&self, client: IpAddr, tried: &[SocketAddr]) -> Option<Chosen> {
        let now = self.now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State {
            candidates,
            choice,
            sticky,
        } = &mut *state;
        let standing = |number: usize| {
            let candidate = candidates.get(number)?;
            match tried.contains(&candidate.backend.address) {
                true => None,
                false => candidate.standing(now),
            }
        };
        let former = sticky
            .as_ref()
            .and_then(|sticky| sticky.backend(client, now))
            .and_then(|address| candidates.iter().position(|c| c.backend.address == address))
            .filter(|number| standing(*number).is_some_and(|standing| standing.rank.is_good()));
        let number = match former {
            Some(number) => number,
            None => choice.choose(client, candidates.len(), standing)?,
        };
        let backend = &candidates.get(number)?.backend;
        if let Some(sticky) = sticky {
            sticky.remember(client, backend.address, now);
        }
        Some(Chosen::of(backend))
    }

    /// The backend that is meant, if it is ready and works.
    pub fn choose_by(&self, is_it: impl Fn(&Backend) -> bool) -> Option<Chosen> {
        let now = self.now();
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let candidate = state.candidates.iter().find(|c| is_it(&c.backend))?;
        let is_good = candidate.standing(now)?.rank.is_good();
        is_good.then(|| Chosen::of(&candidate.backend))
    }

    /// Whether a backend refused again and again, and is left in peace for a while.
    pub fn is_ejected(&self, backend: &Backend) -> bool {
        backend.is_ejected(self.now())
    }

    /// Counts what came of connecting to a backend.
    pub(crate) fn note(&self, backend: &Backend, has_succeeded: bool) {
        match has_succeeded {
            true => backend.succeeded(),
            false => backend.failed(self.now()),
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }
}

#[cfg(test)]
mod tests;
