//! Node lifecycle: Nodes without heartbeats become Unknown and get taints, and their Pods become not ready.
//!
//! [`Heartbeats`] measures the time since the last heartbeat. [`decide()`] derives conditions and taints.
//! [`EvictionLimiter`] limits the rate at which Nodes of a zone get a NoExecute taint, the eviction taint, which evicts
//! their Pods. A single failed Node gets the taint quickly. Many simultaneous failures suggest a fault of the network
//! instead, and their Pods stay. [`Lifecycle`] combines the three.

mod controller;
mod decide;
mod heartbeats;
mod lifecycle;
mod run;
mod write;
mod zones;

use std::time::Duration;

pub use decide::{ConditionChange, NodeState, Step, decide};
pub use heartbeats::Heartbeats;
pub use lifecycle::Lifecycle;
pub use run::run;
pub use zones::{EvictionLimiter, NodeHealth, Zone, ZoneState};

/// Namespace of the Leases with heartbeats.
pub const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Settings of the node lifecycle controller, with upstream's names and defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Interval between checks of all Nodes (`--node-monitor-period`).
    pub monitor_period: Duration,
    /// Time without heartbeats until a Node becomes Unknown (`--node-monitor-grace-period`).
    pub monitor_grace_period: Duration,
    /// Time until a Node becomes Unknown that never reported its status or has no Lease
    /// (`--node-startup-grace-period`).
    pub startup_grace_period: Duration,
    /// Nodes per second that get the eviction taint in a zone (`--node-eviction-rate`).
    pub eviction_rate_per_second: f64,
    /// Nodes per second that get the eviction taint in a large unhealthy zone (`--secondary-node-eviction-rate`).
    pub secondary_eviction_rate_per_second: f64,
    /// Fraction of Nodes that are not ready from which a zone is unhealthy (`--unhealthy-zone-threshold`).
    pub unhealthy_zone_threshold: f64,
    /// Upper bound of Nodes in a small zone, in which no Node gets the eviction taint while it is unhealthy
    /// (`--large-cluster-size-threshold`).
    pub large_cluster_size_threshold: usize,
}

impl Settings {
    /// Returns settings for a few Nodes whose agents renew their Leases every two seconds. A failed Node gets
    /// the eviction taint within ten seconds, and further failed Nodes of the zone one a second.
    pub fn for_small_clusters() -> Self {
        Self {
            monitor_period: Duration::from_secs(1),
            monitor_grace_period: Duration::from_secs(7),
            eviction_rate_per_second: 1.0,
            ..Self::default()
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            monitor_period: Duration::from_secs(5),
            monitor_grace_period: Duration::from_secs(50),
            startup_grace_period: Duration::from_secs(60),
            eviction_rate_per_second: 0.1,
            secondary_eviction_rate_per_second: 0.01,
            unhealthy_zone_threshold: 0.55,
            large_cluster_size_threshold: 50,
        }
    }
}
