//! State that all requests share.

use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::access::Access;
use super::metrics::Metrics;
use super::rate::Bucket;
use super::sessions::Sessions;
use crate::feed::Feed;

/// Logins of all clients: rate per second, and burst. Each one sends about twelve access reviews to the API.
const LOGINS: (f64, f64) = (2.0, 20.0);
/// Maximum number of traces that are computed at once.
const TRACES_MAX: usize = 2;

/// Maximum number of responses that are sent at the same time. The snapshot of 10,000 Services has a few megabytes.
const RESPONSES_MAX: usize = 32;

/// State that all requests share.
pub(super) struct SharedState {
    /// Caches.
    pub feed: Feed,
    /// Decisions about logins.
    pub access: Access,
    /// Sessions.
    pub sessions: Sessions,
    /// Counters.
    pub metrics: Metrics,
    /// Domain of the cluster, for traces.
    pub cluster_domain: String,
    /// Permits for logins.
    pub logins: Mutex<Bucket>,
    /// Permits for traces.
    pub traces: Arc<Semaphore>,
    /// Permits for responses.
    pub responses: Arc<Semaphore>,
}

impl SharedState {
    /// Returns the state of a server without sessions. `port` is that of the server.
    pub(super) fn new(feed: Feed, access: Access, port: u16, cluster_domain: &str) -> Self {
        Self {
            feed,
            access,
            sessions: Sessions::new(port),
            metrics: Metrics::default(),
            cluster_domain: cluster_domain.to_owned(),
            logins: Mutex::new(Bucket::new(LOGINS.0, LOGINS.1, Instant::now())),
            traces: Arc::new(Semaphore::new(TRACES_MAX)),
            responses: Arc::new(Semaphore::new(RESPONSES_MAX)),
        }
    }
}
