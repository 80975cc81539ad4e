//! The running edge: start, changes of settings, draining, and hand-over to a successor.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::admission::ProcessConnections;
use crate::admission::shares::Shares;
use crate::edge_state::EdgeState;
use crate::faults::Faults;
use crate::handover::{self, HandoverError, Predecessor};
use crate::log::{self, Logs};
use crate::metrics;
use crate::port::Port;
use crate::service_table::{ServiceTable, ServingContext};
use crate::settings::Settings;
use crate::sockets::{self, InheritedSockets};
use crate::status::PortStatus;
use crate::sticky_cookie::{StickyKeys, StickySecrets};
use crate::workers::{Workers, spawn_runtime};

/// Interval at which draining checks for open connections.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Time within which aborted connections must end, on the threads that serve them.
const CUT_OFF_TIMEOUT: Duration = Duration::from_secs(1);

/// Time to write the last lines of access logs.
const LOG_FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// Options of an edge at its start.
#[derive(Clone, Default)]
pub struct Options {
    /// Zone of this node, or `None`; [`Edge::set_zone`] changes the zone.
    pub zone: Option<Arc<str>>,
    /// Threads that serve connections; 0 is one for each core.
    pub threads: usize,
    /// Connections and flows that may be open at once; 0 is as many as the limit of open files allows.
    pub connections_max: usize,
    /// Shares of Services and clients in these connections.
    pub shares: Shares,
    /// Destinations that access logs may use.
    pub log_destinations: log::Destinations,
    /// Secrets of sticky cookies; [`Edge::set_sticky_secrets`] changes them.
    pub sticky_secrets: StickySecrets,
    /// Socket at which this edge takes listening sockets over from a running edge, and hands them over to a successor
    /// (`--edge-handover-socket`).
    pub handover_socket: Option<PathBuf>,
}

/// Secrets stay out of logs.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("zone", &self.zone)
            .field("threads", &self.threads)
            .field("connections_max", &self.connections_max)
            .field("shares", &self.shares)
            .field("log_destinations", &self.log_destinations)
            .field("handover_socket", &self.handover_socket)
            .finish_non_exhaustive()
    }
}

/// Reason why an edge did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system provides no thread or no descriptor. A later attempt may succeed.
    #[error("threads of the edge not started: {0}")]
    Threads(#[source] io::Error),
    /// TLS cannot be configured. Another attempt does not help.
    #[error("TLS towards backends not configured: {0}")]
    Tls(#[source] rustls::Error),
    /// Another edge runs and does not hand over its sockets. A later attempt can succeed.
    #[error(transparent)]
    Handover(HandoverError),
}

/// Running edge, on threads of its own. Dropping it closes all connections; [`Edge::drain`] lets them finish first.
#[derive(Debug)]
pub struct Edge {
    inner: Arc<Inner>,
    stop: watch::Sender<()>,
    control: Option<JoinHandle<()>>,
}

/// State that all clones of an edge share.
#[derive(Debug)]
struct Inner {
    edge: Arc<EdgeState>,
    workers: Workers,
    logs: Logs,
    /// Runtime for all tasks except connections.
    control: Handle,
    table: Mutex<ServiceTable>,
    /// Present until its sockets are served.
    predecessor: Mutex<Option<Predecessor>>,
    /// A predecessor may still serve.
    has_predecessor: AtomicBool,
    handover_socket: Option<PathBuf>,
    is_offered: Mutex<bool>,
    faults: watch::Sender<Arc<Faults>>,
    is_handed_over: watch::Sender<bool>,
}

impl Edge {
    /// Interval between attempts to open missing listeners.
    pub const LISTEN_RETRY: Duration = Duration::from_secs(1);

    /// Starts an edge without listeners. The edge receives the listening sockets of a predecessor, and serves them from
    /// the first [`Edge::apply`] on. The sockets belong to the network namespace of the calling thread. The calling
    /// thread needs no runtime.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(options: Options) -> Result<Self, StartError> {
        let sticky_keys = StickyKeys::new(&options.sticky_secrets);
        let possible = sockets::connections_max();
        let open_max = match options.connections_max {
            0 => possible,
            limit => limit.min(possible),
        };
        let connections = ProcessConnections::new(open_max, options.shares);
        let state = EdgeState::new(options.zone, connections, sticky_keys).map_err(StartError::Tls)?;
        let (stop, stopped) = watch::channel(());
        let (control, thread) =
            spawn_runtime("edge-control".to_owned(), stopped).map_err(StartError::Threads)?;
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = match options.threads {
            0 => cores(),
            count => count,
        };
        let workers =
            Workers::start(threads.min(sockets::SOCKETS_PER_ADDRESS_MAX)).map_err(StartError::Threads)?;
        let (inherited, predecessor) = match options.handover_socket.as_deref() {
            Some(path) => inherit_sockets(path, &control).map_err(StartError::Handover)?,
            None => (InheritedSockets::new(), None),
        };
        let inner = Arc::new(Inner {
            edge: Arc::new(state),
            workers,
            logs: Logs::start(options.log_destinations, control.clone()),
            control: control.clone(),
            table: Mutex::new(ServiceTable::new(inherited)),
            has_predecessor: AtomicBool::new(predecessor.is_some()),
            predecessor: Mutex::new(predecessor),
            handover_socket: options.handover_socket,
            is_offered: Mutex::new(false),
            faults: watch::Sender::default(),
            is_handed_over: watch::Sender::new(false),
        });
        control.spawn(retry_listening(Arc::downgrade(&inner)));
        control.spawn(watch_log_space(Arc::downgrade(&inner), inner.logs.watch_space()));
        Ok(Self {
            inner,
            stop,
            control: Some(thread),
        })
    }

    /// Serves exactly `settings` from now on. Unchanged listeners stay open, and use the new certificates, backends
    /// and limits for new connections.
    ///
    /// When it returns, the listening sockets are open as far as possible, and [`Edge::faults`] is up to date. Services
    /// in identical `Arc`s are not compared.
    pub fn apply(&self, settings: &Settings) {
        let inner = &self.inner;
        let mut table = inner.table();
        let removed = table.apply(settings, &inner.context());
        inner.publish_faults(&table);
        drop(table);
        for (backends, drain_time) in removed.into_iter().filter(|(backends, _)| !backends.is_empty()) {
            let inner = Arc::downgrade(inner);
            self.inner.control.spawn(async move {
                sleep(drain_time).await;
                let Some(inner) = inner.upgrade() else { return };
                for backend in &backends {
                    backend.set_cut_off();
                    inner.workers.abort_connections_to(backend);
                }
            });
        }
        self.offer_sockets();
    }

    /// Sets the zone of this node. New connections prefer the backends of the zone, unless a port uses all zones alike.
    /// Open connections stay.
    pub fn set_zone(&self, zone: Option<Arc<str>>) {
        // The lock keeps other threads from applying settings meanwhile.
        let table = self.inner.table();
        if self.inner.edge.set_zone(zone) {
            table.ports().for_each(|port| port.policy.refresh_zone());
        }
    }

    /// Changes the secrets of sticky cookies, from the next request on.
    pub fn set_sticky_secrets(&self, secrets: &StickySecrets) {
        let keys = Arc::new(StickyKeys::new(secrets));
        self.inner.edge.sticky_keys.store(keys);
    }

    /// Returns the current faults, and each change of them.
    pub fn faults(&self) -> watch::Receiver<Arc<Faults>> {
        self.inner.faults.subscribe()
    }

    /// Metrics in the text format of Prometheus.
    pub fn metrics(&self) -> String {
        let ports: Vec<_> = self.inner.table().ports().cloned().collect();
        metrics::metrics_text(&ports, &self.inner.edge.connections, &self.inner.logs)
    }

    /// Returns the current state of each port.
    pub fn status(&self) -> Vec<PortStatus> {
        let (ports, faults) = {
            let table = self.inner.table();
            let ports: Vec<_> = table.ports().cloned().collect();
            (ports, table.faults.clone())
        };
        let status_of_port =
            |port: &Arc<Port>| PortStatus::of(port, faults.get(&port.key).map_or(&[], Vec::as_slice));
        ports.iter().map(status_of_port).collect()
    }

    /// Completes when a successor has taken over the listening sockets. This edge accepts no connections from then
    /// on, and its owner calls [`Edge::drain`] and exits. Never completes without [`Options::handover_socket`].
    pub async fn handed_over(&self) {
        let mut is_handed_over = self.inner.is_handed_over.subscribe();
        // The sender exists as long as this edge does.
        if is_handed_over.wait_for(|is| *is).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns true if the predecessor whose sockets this edge received may still serve. If this edge ends now, the
    /// predecessor continues.
    pub fn has_predecessor(&self) -> bool {
        self.inner.has_predecessor.load(Ordering::Relaxed)
    }

    /// Stops accepting connections, and waits until open connections end. Closes the remaining connections after
    /// `timeout`. Completes when no connection is open and the access logs are written.
    pub async fn drain(&self, timeout: Duration) {
        let inner = self.inner.clone();
        let drained = self.inner.control.spawn(async move {
            inner.close();
            let deadline = Instant::now() + timeout;
            while inner.edge.is_busy() && Instant::now() < deadline {
                sleep(DRAIN_POLL_INTERVAL).await;
            }
            let open = inner.edge.connections.open();
            if open > 0 {
                tracing::info!(
                    connections = open,
                    "drain timeout reached; open connections closed"
                );
                inner.cut_off().await;
            }
            inner.finish_logs().await;
        });
        if let Err(error) = drained.await {
            tracing::error!(%error, "drain task failed");
        }
    }

    /// Confirms to a predecessor that this edge serves its sockets, and waits for a successor. Further calls have no
    /// effect.
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
        self.stop.send_replace(());
        if self.control.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("control thread of the edge panicked");
        }
    }
}

impl Inner {
    fn table(&self) -> MutexGuard<'_, ServiceTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn context(&self) -> ServingContext<'_> {
        ServingContext {
            edge: &self.edge,
            workers: &self.workers,
            logs: &self.logs,
            control: &self.control,
        }
    }

    fn publish_faults(&self, table: &ServiceTable) {
        self.faults.send_if_modified(|faults| {
            let has_changed = **faults != table.faults;
            if has_changed {
                *faults = Arc::new(table.faults.clone());
            }
            has_changed
        });
    }

    fn close(&self) {
        let mut table = self.table();
        table.close();
        table.ports().for_each(|port| port.start_draining());
    }

    /// Aborts all connections and waits until they have ended, so that their lines are in the access logs.
    async fn cut_off(&self) {
        self.edge.is_cut_off.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + CUT_OFF_TIMEOUT;
        while self.edge.is_busy() && Instant::now() < deadline {
            // Repeated, because a connection can move from one thread to another.
            self.workers.abort_all_connections();
            sleep(DRAIN_POLL_INTERVAL).await;
        }
    }

    /// Writes the gathered lines of access logs. Lines that cannot be written in time are lost.
    async fn finish_logs(&self) {
        if tokio::time::timeout(LOG_FLUSH_TIMEOUT, self.logs.finish())
            .await
            .is_err()
        {
            tracing::warn!("access logs not written in time; lines lost");
        }
    }
}

/// Opens missing listeners, until the edge is dropped.
async fn retry_listening(inner: Weak<Inner>) {
    loop {
        sleep(Edge::LISTEN_RETRY).await;
        let Some(inner) = inner.upgrade() else { return };
        let mut table = inner.table();
        if table.is_missing_any() {
            table.listen(&inner.context());
            inner.publish_faults(&table);
        }
    }
}

/// Updates the faults when an access log runs out of space, or has space again.
async fn watch_log_space(inner: Weak<Inner>, mut space_changed: watch::Receiver<u64>) {
    while space_changed.changed().await.is_ok() {
        let Some(inner) = inner.upgrade() else { return };
        let mut table = inner.table();
        table.listen(&inner.context());
        inner.publish_faults(&table);
    }
}

/// Requests the listening sockets of a predecessor.
fn inherit_sockets(
    path: &Path,
    control: &Handle,
) -> Result<(InheritedSockets, Option<Predecessor>), HandoverError> {
    let (send, receive) = mpsc::sync_channel(1);
    let path = path.to_owned();
    control.spawn(async move {
        if send.send(handover::request_sockets(&path).await).is_err() {
            tracing::debug!("sockets of a predecessor not used; the edge did not start");
        }
    });
    let (sockets, predecessor) = match receive.recv() {
        Ok(received) => received?.unzip(),
        Err(_) => return Err(HandoverError::Timeout),
    };
    Ok((sockets.unwrap_or_default(), predecessor))
}

/// Confirms to the predecessor that this edge serves its sockets. Then hands them over to a successor.
async fn hand_over(inner: Weak<Inner>, predecessor: Option<Predecessor>, path: PathBuf) {
    if let Some(predecessor) = predecessor {
        predecessor.take_over().await;
        if let Some(inner) = inner.upgrade() {
            inner.has_predecessor.store(false, Ordering::Relaxed);
        }
    }
    let sockets = || match inner.upgrade() {
        Some(inner) => inner.table().sockets(),
        None => Vec::new(),
    };
    match handover::hand_over(&path, sockets).await {
        Ok(successor) => {
            if let Some(inner) = inner.upgrade() {
                inner.close();
                inner.is_handed_over.send_replace(true);
            }
            drop(successor);
        }
        Err(error) => tracing::error!(%error, "hand-over of listening sockets failed"),
    }
}
