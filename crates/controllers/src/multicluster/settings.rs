//! Settings of the controller of multi-cluster Services.

use std::time::Duration;

use client::Client;

use super::cluster_id::ClusterId;

/// Maximum number of other clusters of a set. Each costs a copy of its Services and EndpointSlices in memory.
pub const OTHER_CLUSTERS_MAX: usize = 64;

/// Time without a successful response after which a cluster is reported as unreachable: longer than a restart of an API
/// server. It is the shortest grace period.
pub const UNREACHABLE_AFTER: Duration = Duration::from_secs(10);

/// Settings of the controller.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of this cluster in the set.
    pub cluster_id: ClusterId,
    /// The other clusters.
    pub others: Vec<OtherCluster>,
    /// Time after which the endpoints of an unreachable cluster are removed.
    pub unreachable_grace_period: Duration,
}

/// Another cluster of the set.
#[derive(Clone, Debug)]
pub struct OtherCluster {
    /// Name of the cluster in the set.
    pub id: ClusterId,
    /// Client of its API server.
    pub client: Client,
}
