//! Backends of a port: their state, and the choice of one for a new connection or request.

mod choice;
mod ejection;
mod sticky;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use tokio::sync::watch;

use crate::http::pool::Pool;
use crate::settings::{self, Listener, ServiceName, ServiceSettings, Stickiness};
use crate::sticky_cookie::{CookieIds, StickyKeys};
use choice::{Choice, Condition, Rank, Rating};
use ejection::Ejection;
use sticky::StickyClients;

/// Backend. It stays the same object as long as its address is among the port's backends.
#[derive(Debug)]
pub(crate) struct Backend {
    /// Address of the backend; it identifies the backend within the port.
    pub address: SocketAddr,
    cookie_ids: ArcSwapOption<CookieIds>,
    pool: Arc<Pool>,
    open_connections_and_requests: AtomicUsize,
    connections: AtomicU64,
    failures: AtomicU64,
    is_healthy: AtomicBool,
    /// True while [`Backend::ejection`] has failures. Backends without failures then need no lock.
    has_failed: AtomicBool,
    ejection: Mutex<Ejection>,
    /// Milliseconds since the port started.
    ejected_until: AtomicU64,
    last_failure: Mutex<Option<BackendFailure>>,
    is_removed: AtomicBool,
    cut_off: watch::Sender<bool>,
}

/// Last failure of a backend.
#[derive(Clone, Debug)]
pub(crate) struct BackendFailure {
    /// Time of the failure.
    pub at: Instant,
    /// Description for logs and status pages.
    pub reason: String,
}

impl Backend {
    fn new(address: SocketAddr) -> Self {
        Self {
            address,
            cookie_ids: ArcSwapOption::empty(),
            pool: Arc::default(),
            open_connections_and_requests: AtomicUsize::new(0),
            connections: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            is_healthy: AtomicBool::new(true),
            has_failed: AtomicBool::new(false),
            ejection: Mutex::default(),
            ejected_until: AtomicU64::new(0),
            last_failure: Mutex::default(),
            is_removed: AtomicBool::new(false),
            cut_off: watch::Sender::new(false),
        }
    }

    /// Returns the ids of the backend in cookies of its Service, computed once for each set of keys.
    pub(crate) fn cookie_ids(&self, keys: &Arc<StickyKeys>, service: &ServiceName) -> Arc<CookieIds> {
        let cached = self.cookie_ids.load();
        if let Some(ids) = cached.as_ref().filter(|ids| ids.belong_to(keys)) {
            return Arc::clone(ids);
        }
        let ids = Arc::new(CookieIds::new(keys, service, self.address));
        self.cookie_ids.store(Some(Arc::clone(&ids)));
        ids
    }

    /// Returns the pool of connections that are open for further requests.
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Returns the number of connections and requests under way.
    pub(crate) fn open_connections_and_requests(&self) -> usize {
        self.open_connections_and_requests.load(Ordering::Relaxed)
    }

    /// Returns the number of connections and requests that chose the backend.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Returns the number of failed connections to the backend.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Returns true if its health checks pass, or there are none.
    pub(crate) fn is_healthy(&self) -> bool {
        self.is_healthy.load(Ordering::Relaxed)
    }

    /// Returns the last failure of a connection to the backend, or of a health check.
    pub(crate) fn last_failure(&self) -> Option<BackendFailure> {
        self.last_failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Records the failure of a connection to the backend or of a health check, in place of the last failure.
    pub(crate) fn record_failure(&self, reason: String) {
        let failure = BackendFailure {
            at: Instant::now(),
            reason,
        };
        *self.last_failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    }

    /// Returns true if the backend is no longer among the port's backends. Connections to a removed backend are not
    /// reused.
    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::Relaxed)
    }

    /// Becomes true when the backend is removed and the drain time of its connections is over.
    pub(crate) fn cut_off(&self) -> watch::Receiver<bool> {
        self.cut_off.subscribe()
    }

    /// Returns true if the drain time of its connections is over.
    pub(crate) fn is_cut_off(&self) -> bool {
        *self.cut_off.borrow()
    }

    /// Ends the drain time of its connections; see [`Backend::cut_off`].
    pub(crate) fn set_cut_off(&self) {
        self.cut_off.send_replace(true);
    }

    /// Sets the result of the health checks.
    pub(crate) fn set_healthy(&self, is_healthy: bool) {
        self.is_healthy.store(is_healthy, Ordering::Relaxed);
    }

    /// Counts a failed connection. Enough of them in a row eject the backend.
    fn count_failure(&self, now: Duration) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.has_failed.store(true, Ordering::Relaxed);
        let mut ejection = self.ejection.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = ejection.count_failure(now) {
            let until = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
            if self.ejected_until.swap(until, Ordering::Relaxed) != until {
                tracing::info!(backend = %self.address, "backend ejected after repeated failures");
            }
        }
    }

    /// Counts an open connection, which ends an ejection.
    fn count_success(&self) {
        if self.has_failed.load(Ordering::Relaxed) && self.has_failed.swap(false, Ordering::Relaxed) {
            let mut ejection = self.ejection.lock().unwrap_or_else(PoisonError::into_inner);
            *ejection = Ejection::default();
            self.ejected_until.store(0, Ordering::Relaxed);
        }
    }

    fn is_ejected(&self, now: Duration) -> bool {
        let until = self.ejected_until.load(Ordering::Relaxed);
        until != 0 && now < Duration::from_millis(until)
    }
}

/// Backend that was chosen for a connection or request, which counts as under way until this is dropped.
#[derive(Debug)]
pub(crate) struct ChosenBackend {
    /// Chosen backend.
    pub backend: Arc<Backend>,
}

impl ChosenBackend {
    fn new(backend: &Arc<Backend>) -> Self {
        backend
            .open_connections_and_requests
            .fetch_add(1, Ordering::Relaxed);
        backend.connections.fetch_add(1, Ordering::Relaxed);
        Self {
            backend: backend.clone(),
        }
    }
}

impl Drop for ChosenBackend {
    fn drop(&mut self) {
        self.backend
            .open_connections_and_requests
            .fetch_sub(1, Ordering::Relaxed);
    }
}

/// Backends of a port.
#[derive(Debug)]
pub(crate) struct Backends {
    started_at: Instant,
    state: Mutex<State>,
}

/// Backends of a port, and the choice among them.
#[derive(Debug, Default)]
struct State {
    candidates: Vec<Candidate>,
    choice: Choice,
    sticky: Option<StickyClients>,
}

/// A backend, with the conditions of its endpoint.
#[derive(Debug)]
struct Candidate {
    backend: Arc<Backend>,
    is_ready: bool,
    is_serving_while_terminating: bool,
    is_in_preferred_zone: bool,
}

impl Candidate {
    fn new(backend: Arc<Backend>, settings: &settings::Backend, near_zone: Option<&str>) -> Self {
        Self {
            backend,
            is_ready: settings.is_ready,
            is_serving_while_terminating: settings.is_serving_while_terminating,
            is_in_preferred_zone: near_zone.is_none_or(|zone| settings.zone.as_deref() == Some(zone)),
        }
    }

    /// Returns the rating for the choice; `None` if the backend accepts no connections.
    fn rating(&self, now: Duration) -> Option<Rating> {
        let rank = Rank::of(Condition {
            is_ready: self.is_ready,
            is_serving_while_terminating: self.is_serving_while_terminating,
            is_healthy: self.backend.is_healthy(),
            is_ejected: self.backend.is_ejected(now),
            is_in_preferred_zone: self.is_in_preferred_zone,
        })?;
        let open_connections_and_requests = self.backend.open_connections_and_requests();
        Some(Rating {
            rank,
            open_connections_and_requests,
        })
    }
}

impl Default for Backends {
    fn default() -> Self {
        Self {
            started_at: Instant::now(),
            state: Mutex::default(),
        }
    }
}

impl Backends {
    /// Sets the backends and the algorithm of the choice among them; `zone` is the zone of this node. Backends whose
    /// address stays keep their state. Returns the removed ones.
    pub(crate) fn set(
        &self,
        service: &ServiceSettings,
        listener: &Listener,
        zone: Option<&str>,
    ) -> Vec<Arc<Backend>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let near_zone = zone.filter(|_| !service.policy.is_cross_zone);
        let mut former = std::mem::take(&mut state.candidates);
        for settings in &listener.backends {
            if state
                .candidates
                .iter()
                .any(|candidate| candidate.backend.address == settings.address)
            {
                continue;
            }
            let index = former
                .iter()
                .position(|candidate| candidate.backend.address == settings.address);
            let backend = match index {
                Some(index) => former.swap_remove(index).backend,
                None => Arc::new(Backend::new(settings.address)),
            };
            state
                .candidates
                .push(Candidate::new(backend, settings, near_zone));
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
                sticky.retain_backends(|address| addresses.contains(&address));
            }
            (Stickiness::Source { timeout }, none) => *none = Some(StickyClients::new(*timeout)),
            (Stickiness::None | Stickiness::Cookie { .. }, sticky) => *sticky = None,
        }
        let removed = former.into_iter().map(|candidate| candidate.backend);
        removed
            .inspect(|backend| {
                backend.is_removed.store(true, Ordering::Relaxed);
                backend.pool.clear();
            })
            .collect()
    }

    /// Returns the backends, in the order of the settings.
    pub(crate) fn all(&self) -> Vec<Arc<Backend>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state
            .candidates
            .iter()
            .map(|candidate| candidate.backend.clone())
            .collect()
    }

    /// Chooses the backend for a client's new connection or request, except the addresses in `tried`.
    pub(crate) fn choose(&self, client: IpAddr, tried: &[SocketAddr]) -> Option<ChosenBackend> {
        let now = self.now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State {
            candidates,
            choice,
            sticky,
        } = &mut *state;
        let rating = |number: usize| {
            let candidate = candidates.get(number)?;
            if tried.contains(&candidate.backend.address) {
                return None;
            }
            candidate.rating(now)
        };
        let former = sticky
            .as_ref()
            .and_then(|sticky| sticky.backend(client, now))
            .and_then(|address| {
                candidates
                    .iter()
                    .position(|candidate| candidate.backend.address == address)
            })
            .filter(|number| rating(*number).is_some_and(|rating| rating.rank.is_usable()));
        let number = match former {
            Some(number) => number,
            None => choice.choose(client, candidates.len(), rating)?,
        };
        let backend = &candidates.get(number)?.backend;
        if let Some(sticky) = sticky {
            sticky.insert(client, backend.address, now);
        }
        Some(ChosenBackend::new(backend))
    }

    /// Chooses the backend for which `is_wanted` returns true, if it is ready, healthy and not ejected.
    pub(crate) fn choose_by(&self, is_wanted: impl Fn(&Backend) -> bool) -> Option<ChosenBackend> {
        let now = self.now();
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let candidate = state
            .candidates
            .iter()
            .find(|candidate| is_wanted(&candidate.backend))?;
        let is_usable = candidate.rating(now)?.rank.is_usable();
        is_usable.then(|| ChosenBackend::new(&candidate.backend))
    }

    /// Returns true while a backend is ejected after repeated failures.
    pub(crate) fn is_ejected(&self, backend: &Backend) -> bool {
        backend.is_ejected(self.now())
    }

    /// Counts the success or failure of a connection to a backend.
    pub(crate) fn record_connect(&self, backend: &Backend, is_success: bool) {
        if is_success {
            backend.count_success();
        } else {
            backend.count_failure(self.now());
        }
    }

    fn now(&self) -> Duration {
        self.started_at.elapsed()
    }
}

#[cfg(test)]
mod tests;
