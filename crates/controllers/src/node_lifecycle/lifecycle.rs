//! The state of all Nodes with their heartbeats and evictions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use api::object::{Lease, Node};

use super::decide::{NodeState, Step, decide};
use super::zones::{EvictionLimiter, NodeHealth};
use super::{Heartbeats, Settings};

/// A state machine without clock or I/O. Inputs are Nodes, Leases and time; outputs are steps.
#[derive(Debug, Default)]
pub struct Lifecycle {
    settings: Settings,
    nodes: BTreeMap<String, NodeState>,
    heartbeats: Heartbeats,
    eviction_limiter: EvictionLimiter,
    /// Nodes that may get the NoExecute taint, until they are ready again.
    granted: BTreeSet<String>,
}

impl Lifecycle {
    /// Creates the state without Nodes.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Applies a Node.
    pub fn apply_node(&mut self, node: &Node, now: Instant) {
        self.heartbeats.node(node, now);
        let name = &node.metadata.name;
        let state = NodeState::of(node);
        if state.is_ready() {
            self.granted.remove(name);
        }
        self.nodes.insert(name.clone(), state);
    }

    /// Removes a Node.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
        self.granted.remove(name);
        self.heartbeats.remove_node(name);
    }

    /// Applies a Lease.
    pub fn apply_lease(&mut self, lease: &Lease, now: Instant) {
        let name = &lease.metadata.name;
        if let Some(renew_time) = &lease.spec.renew_time {
            self.heartbeats.lease(name, renew_time, now);
        }
        // A Node with a heartbeat in time needs no eviction any more.
        if self.nodes.get(name).is_some_and(NodeState::is_ready) {
            self.granted.remove(name);
        }
    }

    /// Removes a Lease.
    pub fn remove_lease(&mut self, name: &str) {
        self.heartbeats.remove_lease(name);
    }

    /// Returns the state of a Node.
    pub fn node(&self, name: &str) -> Option<&NodeState> {
        self.nodes.get(name)
    }

    /// Returns `renewTime` of a Node's Lease, as it was last observed.
    pub fn renew_time(&self, name: &str) -> Option<&str> {
        self.heartbeats.renew_time(name)
    }

    /// Checks all Nodes, once every [`Settings::monitor_period`], and grants evictions; returns the Nodes with a
    /// pending step.
    pub fn check_nodes(&mut self, now: Instant) -> Vec<String> {
        let health = |(name, node): (&String, &NodeState)| {
            // A Node that never reported its status has not started yet.
            let is_eviction_granted = self.is_eviction_granted(name) || node.status("Ready").is_none();
            let is_ready = node.is_ready() && !self.is_heartbeat_overdue(name, now);
            (name.clone(), node.zone.clone(), is_ready, is_eviction_granted)
        };
        let all: Vec<_> = self.nodes.iter().map(health).collect();
        let nodes: Vec<NodeHealth<'_>> = all
            .iter()
            .map(|(name, zone, is_ready, is_eviction_granted)| NodeHealth {
                name,
                zone,
                is_ready: *is_ready,
                is_eviction_granted: *is_eviction_granted,
            })
            .collect();
        let granted = self.eviction_limiter.grant(&nodes, &self.settings, now);
        self.granted.extend(granted);
        let due = self
            .nodes
            .keys()
            .filter(|name| self.decide(name, now, "").is_some());
        due.cloned().collect()
    }

    /// Returns the next step of a Node. `time` is the same moment as `now`, RFC 3339.
    pub fn decide(&self, name: &str, now: Instant, time: &str) -> Option<Step> {
        let node = self.nodes.get(name)?;
        decide(
            node,
            self.is_heartbeat_overdue(name, now),
            self.is_eviction_granted(name),
            time,
        )
    }

    /// Returns true if the Pods of a Node are to be not ready: it has the NoExecute taint and is not ready.
    pub fn needs_unready_pods(&self, name: &str) -> bool {
        let node = self.nodes.get(name);
        node.is_some_and(|node| node.has_eviction_taint() && !node.is_ready())
    }

    fn is_eviction_granted(&self, name: &str) -> bool {
        self.granted.contains(name) || self.nodes.get(name).is_some_and(NodeState::has_eviction_taint)
    }

    fn is_heartbeat_overdue(&self, name: &str, now: Instant) -> bool {
        let Some(node) = self.nodes.get(name) else {
            return false;
        };
        let renews_lease = node.status("Ready").is_some() && self.heartbeats.renew_time(name).is_some();
        let Settings {
            monitor_grace_period,
            startup_grace_period,
            ..
        } = self.settings;
        let grace_period = if renews_lease {
            monitor_grace_period
        } else {
            // A Node without a Lease has only status updates as heartbeats, which are less frequent.
            startup_grace_period.max(monitor_grace_period)
        };
        self.heartbeats
            .time_since_heartbeat(name, now)
            .is_some_and(|elapsed| elapsed > grace_period)
    }
}

#[cfg(test)]
mod tests;
