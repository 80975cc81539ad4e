//! Nodes that fall silent: they become Unknown, and what runs on them leaves traffic until they are heard again.
//!
//! [`Heartbeats`] says how long nothing was heard of a Node, [`judge()`] which conditions and taints follow from
//! that, and [`Withdrawals`] how fast Nodes may be taken out of traffic: a Node whose silence is its own goes
//! quickly, but when many fall silent at once the fault is likelier in between, and what they serve stays.
//! [`Lifecycle`] puts the three together.

mod heartbeats;
mod judge;
mod keeper;
mod lifecycle;
mod run;
mod write;
mod zones;

use std::time::Duration;

pub use heartbeats::Heartbeats;
pub use judge::{ConditionChange, NodeState, Step, judge};
pub use lifecycle::Lifecycle;
pub use run::run;
pub use zones::{Standing, Withdrawals, Zone, ZoneState};

/// Where the Leases are by which Nodes say that they live.
pub const LEASE_NAMESPACE: &str = "kube-node-lease";

/// How patient the controller is; names and defaults are upstream's.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How often Nodes are looked at (`--node-monitor-period`).
    pub monitor_period: Duration,
    /// How long a Node may be silent (`--node-monitor-grace-period`).
    pub monitor_grace_period: Duration,
    /// How long one may that never said that it is ready, or renews no Lease (`--node-startup-grace-period`).
    pub startup_grace_period: Duration,
    /// Nodes of a zone that are taken out of traffic a second (`--node-eviction-rate`).
    pub eviction_rate_per_second: f64,
    /// The same in a large zone most of which is silent (`--secondary-node-eviction-rate`).
    pub secondary_eviction_rate_per_second: f64,
    /// The share of silent Nodes from which a zone is unhealthy (`--unhealthy-zone-threshold`).
    pub unhealthy_zone_threshold: f64,
    /// A zone of at most so many Nodes is small: when it is unhealthy, nothing is taken out of traffic
    /// (`--large-cluster-size-threshold`).
    pub large_cluster_size_threshold: usize,
}

impl Settings {
    /// For a cluster of a handful of machines whose agents renew their Leases every two seconds: one that dies is out
    /// of traffic within ten seconds, and several that are switched off at once follow each other quickly.
    pub fn of_few_machines() -> Self {
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
