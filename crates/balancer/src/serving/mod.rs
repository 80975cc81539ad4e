//! What the edge of this node serves: the Services whose addresses it has, made out of Services, EndpointSlices and
//! Secrets.
//!
//! The assigner has decided which Services are the edge's and wrote so into their statuses (`ipMode: Proxy`); the
//! announcer decides which node has which address. Here the rest is done: an address that is this node's becomes local,
//! the edge is told what to serve there, and only then the announcer is told that it may be answered for.
//!
//! - [`world`]: the caches, and the edge's settings as a pure function of them
//! - [`secret`]: reading Secrets; [`certificates`]: what those hold that are referred to
//! - [`local`]: addresses that are this machine's own
//! - `lingering`: addresses that moved away, and whose connections go on here
//! - `status`: what is told of ports that cannot be served
//! - [`run()`]: the loop around all of it

pub mod certificates;
mod lingering;
pub mod local;
mod run;
pub mod secret;
mod status;
pub mod world;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use edge::status::PortStatus;
use edge::{Edge, Shares, StickySecrets};
use netlink::route::RouteError;
use tokio::sync::watch;

pub use run::run;

/// Addresses, as they are told from the announcer to the edge and back.
pub type Addresses = std::collections::BTreeSet<IpAddr>;

/// Maximum time for which packets of open connections are forwarded to the previous owner of an address, and for which
/// that node goes on serving the address: a working day and its night. Older connections have to be opened again.
pub const FORWARDED_FOR_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Settings of a node's edge.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The Node that this process is on.
    pub node_name: String,
    /// Which addresses this node has: those that its announcer answers for, of which nothing is known before it has begun, or
    /// all where the network leads them here.
    pub owned: Option<watch::Receiver<Option<Addresses>>>,
    /// Where the announcer hears which addresses are served.
    pub served: watch::Sender<Arc<Addresses>>,
    /// Where access logs may go.
    pub log_places: edge::log::Destinations,
    /// The buckets among these places.
    pub buckets: Buckets,
    /// Connections that may be open at once; 0 for as many as the limit of open files allows.
    pub connections_max: usize,
    /// Shares of Services and clients.
    pub shares: Shares,
    /// What cookies of sticky sessions are made of, the same on all nodes; if not given, it is read from the Secret
    /// [`crate::cookie_secret`].
    pub sticky_secrets: Option<StickySecrets>,
    /// Threads that serve connections; 0 for one a core.
    pub threads: usize,
    /// Where listening sockets are handed over to a successor.
    pub handover_socket: Option<PathBuf>,
    /// How long open connections may take at the end.
    pub drain_patience: Duration,
    /// Where what the edge counts is read.
    pub metrics: Arc<Metrics>,
}

/// The buckets that access logs may go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Buckets {
    /// No S3-compatible service is known: files go to the directory instead.
    #[default]
    Unknown,
    /// These, which may be none; `*` stands for all that the credentials lead to.
    Allowed(BTreeSet<Arc<str>>),
}

impl Buckets {
    fn allow(&self, bucket: &str) -> bool {
        match self {
            Self::Unknown => false,
            Self::Allowed(names) => names.contains("*") || names.contains(bucket),
        }
    }
}

/// What the edge counts, and how its ports are, once it runs.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<Weak<Edge>>);

impl Metrics {
    pub(crate) fn set(&self, edge: &Arc<Edge>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(edge);
    }

    /// All in Prometheus' text format; nothing before there is something to serve.
    pub fn render(&self) -> String {
        self.edge().map_or_else(String::new, |edge| edge.metrics())
    }

    /// How each port is; none before there is something to serve.
    pub fn status(&self) -> Vec<PortStatus> {
        self.edge().map_or_else(Vec::new, |edge| edge.status())
    }

    fn edge(&self) -> Option<Arc<Edge>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }
}

/// Why a node's edge does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The edge cannot be started.
    #[error(transparent)]
    Edge(#[from] edge::StartError),
    /// The kernel does not tell which addresses are local.
    #[error("addresses cannot be made local: {0}")]
    Local(#[from] RouteError),
}
