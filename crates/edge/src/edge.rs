//! The edge as a whole.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::faults::Faults;
use crate::handover::{self, HandoverError, Predecessor, Sockets};
use crate::http::cookie::{StickyKeys, StickySecrets};
use crate::log::{self, Logs};
use crate::metrics;
use crate::port::{Port, Shared};
use crate::serving::{Means, Serving};
use crate::settings::Settings;
use crate::shares::Shares;
use crate::sockets;
use crate::status::PortStatus;
use crate::workers::{THREADS_MAX, Workers, spawn_runtime};

/// How often it is looked whether connections have finished.
const DRAIN_STEP: Duration = Duration::from_millis(20);

/// How long it may take until connections that are cut off are gone: their threads have to come to it.
const CUT_PATIENCE: Duration = Duration::from_secs(1);

/// How long the last lines of access logs may take to be written.
const LOGS_PATIENCE: Duration = Duration::from_secs(10);

/// How an edge is started.
#[derive(Clone, Default)]
pub struct Options {
    /// The zone of this node, if it is in one; [`Edge::set_zone`] tells another one later.
    pub zone: Option<Arc<str>>,
    /// Threads that serve connections; 0 for one a core.
    pub threads: usize,
    /// Connections and flows that may be open at once; 0 for as many as the limit of open files allows.
    pub connections_max: usize,
    /// How Services and clients share them.
    pub shares: Shares,
    /// Where access logs may go.
    pub log_places: log::Places,
    /// What cookies for stickiness are made of, until [`Edge::set_sticky_secrets`] says something else.
    pub sticky_secrets: StickySecrets,
    /// Where the listening sockets of an edge that runs are taken over from, and where they are handed over later
    /// (`--edge-handover-socket`).
    pub handover_socket: Option<PathBuf>,
}

/// The secret stays out of logs.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("zone", &self.zone)
            .field("threads", &self.threads)
            .field("connections_max", &self.connections_max)
            .field("shares", &self.shares)
            .field("log_places", &self.log_places)
            .field("handover_socket", &self.handover_socket)
            .finish_non_exhaustive()
    }
}

/// Why an edge did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system gives no thread or no descriptor. A later attempt may succeed.
    #[error("starting the edge's threads: {0}")]
    Threads(#[source] io::Error),
    /// TLS cannot be set up. Trying again does not help.
    #[error("setting up TLS to backends: {0}")]
    Tls(#[source] rustls::Error),
    /// A predecessor runs and does not hand over. A later attempt may succeed.
    #[error(transparent)]
    Handover(HandoverError),
}

/// An edge that runs, on threads of its own. Dropping it ends all connections; [`Edge::drain`] lets them finish first.
#[derive(Debug)]
pub struct Edge {
    inner: Arc<Inner>,
    end: watch::Sender<()>,
    control: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    workers: Workers,
    logs: Logs,
    /// Where everything runs that is not a connection.
    control: Handle,
    serving: Mutex<Serving>,
    /// Until its sockets are served.
    predecessor: Mutex<Option<Predecessor>>,
    handover_socket: Option<PathBuf>,
    is_offered: Mutex<bool>,
    faults: watch::Sender<Arc<Faults>>,
    is_handed_over: watch::Sender<bool>,
}

impl Edge {
    /// How often it is tried to listen where that failed.
    pub const LISTEN_RETRY: Duration = Duration::from_secs(1);

    /// Starts one that serves nothing yet. Listening sockets of a predecessor are received here and served from the first
    /// [`Edge::apply`] on. Needs no runtime; sockets belong to the calling thread's network namespace.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(options: Options) -> Result<Self, StartError> {
        let sticky_keys = StickyKeys::new(&options.sticky_secrets);
        let bearable = sockets::connections_max();
        let open_max = match options.connections_max {
            0 => bearable,
            asked => asked.min(bearable),
        };
        let shared = Shared::new(options.zone, open_max, options.shares, sticky_keys);
        let shared = shared.map_err(StartError::Tls)?;
        let (end, ended) = watch::channel(());
        let (control, thread) =
            spawn_runtime("edge-control".to_owned(), ended).map_err(StartError::Threads)?;
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = match options.threads {
            0 => cores(),
            count => count,
        };
        let workers = Workers::start(threads.min(THREADS_MAX)).map_err(StartError::Threads)?;
        let (inherited, predecessor) = match options.handover_socket.as_deref() {
            Some(path) => inherit(path, &control).map_err(StartError::Handover)?,
            None => (Sockets::new(), None),
        };
        let inner = Arc::new(Inner {
            shared: Arc::new(shared),
            workers,
            logs: Logs::start(options.log_places, control.clone()),
            control: control.clone(),
            serving: Mutex::new(Serving::new(inherited)),
            predecessor: Mutex::new(predecessor),
            handover_socket: options.handover_socket,
            is_offered: Mutex::new(false),
            faults: watch::Sender::default(),
            is_handed_over: watch::Sender::new(false),
        });
        control.spawn(listen_again(Arc::downgrade(&inner)));
        control.spawn(follow_logs(Arc::downgrade(&inner), inner.logs.follow_room()));
        Ok(Self {
            inner,
            end,
            control: Some(thread),
        })
    }

    /// Serves `settings` from now on, all of it. Listeners that stay go on, with the new certificates, backends and limits
    /// for new connections. It returns when the listening sockets are open, as far as they can be: what is wrong is in
    /// [`Edge::faults`] by then. Cheap for what did not change (`Arc`s that are the same are not looked into).
    pub fn apply(&self, settings: &Settings) {
        let inner = &self.inner;
        let mut serving = inner.serving();
        let left = serving.apply(settings, &inner.means());
        inner.tell_faults(&serving);
        drop(serving);
        for (backends, patience) in left.into_iter().filter(|(backends, _)| !backends.is_empty()) {
            let inner = Arc::downgrade(inner);
            self.inner.control.spawn(async move {
                sleep(patience).await;
                let Some(inner) = inner.upgrade() else { return };
                for backend in &backends {
                    backend.cut_off();
                    inner.workers.cut(backend);
                }
            });
        }
        self.offer_sockets();
    }

    /// This node is in that zone from now on: new connections prefer its backends where zones matter. Those that are open go
    /// on.
    pub fn set_zone(&self, zone: Option<Arc<str>>) {
        // Nobody takes settings over meanwhile.
        let serving = self.inner.serving();
        if self.inner.shared.set_zone(zone) {
            serving.ports().for_each(|port| port.look_around());
        }
    }

    /// Makes cookies for stickiness of other secrets, from the next request on.
    pub fn set_sticky_secrets(&self, secrets: &StickySecrets) {
        let keys = Arc::new(StickyKeys::new(secrets));
        self.inner.shared.sticky_keys.store(keys);
    }

    /// What is wrong now, and whenever that changes.
    pub fn faults(&self) -> watch::Receiver<Arc<Faults>> {
        self.inner.faults.subscribe()
    }

    /// Metrics in Prometheus' text format.
    pub fn metrics(&self) -> String {
        let ports: Vec<_> = self.inner.serving().ports().cloned().collect();
        metrics::text(&ports, &self.inner.logs)
    }

    /// How each port is now.
    pub fn status(&self) -> Vec<PortStatus> {
        let (ports, faults) = {
            let serving = self.inner.serving();
            let ports: Vec<_> = serving.ports().cloned().collect();
            (ports, serving.faults.clone())
        };
        let of_port =
            |port: &Arc<Port>| PortStatus::of(port, faults.get(&port.key).map_or(&[], Vec::as_slice));
        ports.iter().map(of_port).collect()
    }

    /// Returns when a successor has taken over the listening sockets; this edge takes no connections from then on, and
    /// whoever holds it calls [`Edge::drain`] and ends. Never without [`Options::handover_socket`].
    pub async fn handed_over(&self) {
        let mut is_handed_over = self.inner.is_handed_over.subscribe();
        // The sender is there as long as this edge is.
        if is_handed_over.wait_for(|is| *is).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Takes no more connections and lets those that are open finish; returns when none is left, or after `patience`
    /// with those that are left closed, and when access logs are written.
    pub async fn drain(&self, patience: Duration) {
        let inner = self.inner.clone();
        let drained = self.inner.control.spawn(async move {
            inner.close();
            let deadline = Instant::now() + patience;
            while inner.is_busy() && Instant::now() < deadline {
                sleep(DRAIN_STEP).await;
            }
            let left = inner.shared.open.load(Ordering::Relaxed);
            if left > 0 {
                tracing::info!(
                    connections = left,
                    "connections that did not finish in time are closed"
                );
                inner.cut_off().await;
            }
            inner.finish_logs().await;
        });
        if let Err(error) = drained.await {
            tracing::error!(%error, "the edge does not drain");
        }
    }

    /// From the first settings on: tells a predecessor that its sockets are served, and waits for a successor.
    fn offer_sockets(&self) {
        let inner = &self.inner;
        let Some(path) = inner.handover_socket.clone() else {
            return;
        };
        let mut is_offered = inner.is_offered.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *is_offered, true) {
            return;
        }
        let predecessor = inner
            .predecessor
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        inner
            .control
            .spawn(hand_over(Arc::downgrade(inner), predecessor, path));
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        self.end.send_replace(());
        if self.control.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the edge's control thread has panicked");
        }
    }
}

impl Inner {
    fn serving(&self) -> MutexGuard<'_, Serving> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn means(&self) -> Means<'_> {
        Means {
            shared: &self.shared,
            workers: &self.workers,
            logs: &self.logs,
            control: &self.control,
        }
    }

    fn tell_faults(&self, serving: &Serving) {
        self.faults.send_if_modified(|faults| {
            let has_changed = **faults != serving.faults;
            if has_changed {
                *faults = Arc::new(serving.faults.clone());
            }
            has_changed
        });
    }

    fn close(&self) {
        let mut serving = self.serving();
        serving.close();
        serving.ports().for_each(|port| port.begin_draining());
    }

    /// Cuts off all connections and waits until they are gone: then their lines are in the access logs.
    async fn cut_off(&self) {
        self.shared.is_cut_off.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + CUT_PATIENCE;
        while self.is_busy() && Instant::now() < deadline {
            // Again and again: one may have been on its way from thread to thread.
            self.workers.cut_all();
            sleep(DRAIN_STEP).await;
        }
    }

    /// Writes what access logs have gathered; what cannot be written soon is lost.
    async fn finish_logs(&self) {
        if tokio::time::timeout(LOGS_PATIENCE, self.logs.finish())
            .await
            .is_err()
        {
            tracing::warn!("access logs cannot be written in time, and lines are lost");
        }
    }

    /// Whether connections are open, or are still being taken.
    fn is_busy(&self) -> bool {
        self.shared.takers.load(Ordering::Relaxed) > 0 || self.shared.open.load(Ordering::Relaxed) > 0
    }
}

/// Tries again and again to listen where that failed.
async fn listen_again(inner: Weak<Inner>) {
    loop {
        sleep(Edge::LISTEN_RETRY).await;
        let Some(inner) = inner.upgrade() else { return };
        let mut serving = inner.serving();
        if serving.is_missing_any() {
            serving.listen(&inner.means());
            inner.tell_faults(&serving);
        }
    }
}

/// Tells faults anew when an access log finds no room for its files, or finds room again.
async fn follow_logs(inner: Weak<Inner>, mut room_changed: watch::Receiver<u64>) {
    while room_changed.changed().await.is_ok() {
        let Some(inner) = inner.upgrade() else { return };
        let mut serving = inner.serving();
        serving.listen(&inner.means());
        inner.tell_faults(&serving);
    }
}

/// Asks a predecessor for its sockets.
fn inherit(path: &Path, control: &Handle) -> Result<(Sockets, Option<Predecessor>), HandoverError> {
    let (send, receive) = mpsc::sync_channel(1);
    let path = path.to_owned();
    control.spawn(async move {
        if send.send(handover::ask(&path).await).is_err() {
            tracing::debug!("nobody waits for a predecessor's sockets any more");
        }
    });
    let (sockets, predecessor) = match receive.recv() {
        Ok(asked) => asked?.unzip(),
        Err(_) => return Err(HandoverError::Silence),
    };
    Ok((sockets.unwrap_or_default(), predecessor))
}

/// Tells the predecessor that its sockets are served, then waits for a successor and hands them over.
async fn hand_over(inner: Weak<Inner>, predecessor: Option<Predecessor>, path: PathBuf) {
    if let Some(predecessor) = predecessor {
        predecessor.take_over().await;
    }
    let sockets = || match inner.upgrade() {
        Some(inner) => inner.serving().sockets(),
        None => Vec::new(),
    };
    match handover::offer(&path, sockets).await {
        Ok(successor) => {
            if let Some(inner) = inner.upgrade() {
                inner.close();
                inner.is_handed_over.send_replace(true);
            }
            drop(successor);
        }
        Err(error) => tracing::error!(%error, "a successor cannot take over listening sockets"),
    }
}
