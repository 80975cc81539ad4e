//! Settings of a node's edge server.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use edge::{Shares, StickySecrets};
use tokio::sync::watch;

use super::Metrics;

/// Addresses that the announcer and the edge server exchange.
pub type Addresses = BTreeSet<IpAddr>;

/// Settings of a node's edge server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of this Node.
    pub node_name: String,
    /// Addresses that this node announces; the value is `None` until the announcer starts. Without a
    /// receiver, the node owns all addresses, because the network routes them here.
    pub owned: Option<watch::Receiver<Option<Addresses>>>,
    /// Addresses that are served, for the announcer.
    pub served: watch::Sender<Arc<Addresses>>,
    /// Destinations of access logs.
    pub log_destinations: edge::log::Destinations,
    /// Buckets of access logs.
    pub buckets: AllowedBuckets,
    /// Maximum number of open connections; 0 for the limit of open files.
    pub connections_max: usize,
    /// Shares of Services and clients.
    pub shares: Shares,
    /// Keys of sticky-session cookies, the same on all nodes. By default they are in the Secret
    /// [`crate::cookie_secret`].
    pub sticky_secrets: Option<StickySecrets>,
    /// Number of threads; 0 for one per core.
    pub threads: usize,
    /// Path of the socket for the hand-over of listening sockets to a successor.
    pub handover_socket: Option<PathBuf>,
    /// Drain timeout of open connections at shutdown.
    pub drain_timeout: Duration,
    /// Access to the metrics of the edge.
    pub metrics: Arc<Metrics>,
}

/// Buckets to which access logs may be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AllowedBuckets {
    /// No S3 endpoint is configured: access logs go to the directory.
    #[default]
    Unknown,
    /// Listed buckets, possibly none; `*` allows all buckets of the credentials.
    Allowed(BTreeSet<Arc<str>>),
}

impl AllowedBuckets {
    /// Returns true if access logs may go to the bucket.
    pub(super) fn allow(&self, bucket: &str) -> bool {
        match self {
            Self::Unknown => false,
            Self::Allowed(names) => names.contains("*") || names.contains(bucket),
        }
    }
}
