//! The edge as a whole.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::faults::Faults;
use crate::log;
use crate::settings::Settings;

/// How an edge is started.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The zone of this node, if it is in one.
    pub zone: Option<Arc<str>>,
    /// Threads that serve connections; 0 for one a core.
    pub threads: usize,
    /// Where access logs may go.
    pub log_places: log::Places,
    /// Where the listening sockets of an edge that runs are taken over from, and where they are handed over later
    /// (`--edge-handover-socket`).
    pub handover_socket: Option<PathBuf>,
}

/// An edge that runs, on threads of its own. Dropping it ends all connections; [`Edge::drain`] lets them finish first.
#[derive(Debug)]
pub struct Edge {}

impl Edge {
    /// How often it is tried to listen where that failed.
    pub const LISTEN_RETRY: Duration = Duration::from_secs(1);

    /// Starts one that serves nothing yet. Listening sockets of a predecessor are received here and served from the first
    /// [`Edge::apply`] on. Needs no runtime; sockets belong to the calling thread's network namespace.
    pub fn start(options: Options) -> Result<Self, StartError>;

    /// Serves `settings` from now on, all of it. Listeners that stay go on, with the new certificates, backends and limits
    /// for new connections. It returns when the listening sockets are open, as far as they can be: what is wrong is in
    /// [`Edge::faults`] by then. Cheap for what did not change (`Arc`s that are the same are not looked into).
    pub fn apply(&self, settings: &Settings);

    /// What is wrong now, and whenever that changes.
    pub fn faults(&self) -> watch::Receiver<Arc<Faults>>;

    /// Metrics in Prometheus' text format.
    pub fn metrics(&self) -> String;

    /// Returns when a successor has taken over the listening sockets; this edge takes no connections from then on, and
    /// whoever holds it calls [`Edge::drain`] and ends. Never without [`Options::handover_socket`].
    pub async fn handed_over(&self);

    /// Takes no more connections and lets those that are open finish; returns when none is left, or after `patience`
    /// with those that are left closed.
    pub async fn drain(&self, patience: Duration);
}
