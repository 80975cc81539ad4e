//! All Nodes, what was heard of them, and who is next.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use api::object::{Lease, Node};

use super::judge::{NodeState, Step, judge};
use super::zones::{Standing, Withdrawals};
use super::{Heartbeats, Settings};

/// The state of the controller. It does nothing by itself: changes and the time are told, and who is to be
/// looked at is answered.
#[derive(Debug, Default)]
pub struct Lifecycle {
    settings: Settings,
    nodes: BTreeMap<String, NodeState>,
    heartbeats: Heartbeats,
    withdrawals: Withdrawals,
    /// Nodes that may leave traffic and whose taint does not say so yet.
    granted: BTreeSet<String>,
}

impl Lifecycle {
    /// A controller that knows no Node yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// A Node is new or changed.
    pub fn apply_node(&mut self, node: &Node, now: Instant) {
        self.heartbeats.node(node, now);
        let name = &node.metadata.name;
        let state = NodeState::of(node);
        if state.is_ready() {
            self.granted.remove(name);
        }
        self.nodes.insert(name.clone(), state);
    }

    /// A Node is gone.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
        self.granted.remove(name);
        self.heartbeats.remove_node(name);
    }

    /// A Node's Lease is new or changed.
    pub fn apply_lease(&mut self, lease: &Lease, now: Instant) {
        let name = &lease.metadata.name;
        if let Some(renew_time) = &lease.spec.renew_time {
            self.heartbeats.lease(name, renew_time, now);
        }
        // One that is heard in time needs no leave any more.
        if self.nodes.get(name).is_some_and(NodeState::is_ready) {
            self.granted.remove(name);
        }
    }

    /// A Node's Lease is gone.
    pub fn remove_lease(&mut self, name: &str) {
        self.heartbeats.remove_lease(name);
    }

    /// What is known of a Node.
    pub fn node(&self, name: &str) -> Option<&NodeState> {
        self.nodes.get(name)
    }

    /// `renewTime` of a Node's Lease, as it was heard last.
    pub fn renew_time(&self, name: &str) -> Option<&str> {
        self.heartbeats.renew_time(name)
    }

    /// Goes over all Nodes, which is due every [`Settings::monitor_period`], and lets some leave traffic; returns
    /// those to be judged.
    pub fn sweep(&mut self, now: Instant) -> Vec<String> {
        let standing = |(name, node): (&String, &NodeState)| {
            // One that never said anything is not lost, it has not come yet.
            let is_out = self.leaves_traffic(name) || node.status("Ready").is_none();
            let is_ready = node.is_ready() && !self.is_silent(name, now);
            (name.clone(), node.zone.clone(), is_ready, is_out)
        };
        let all: Vec<_> = self.nodes.iter().map(standing).collect();
        let nodes: Vec<Standing<'_>> = all
            .iter()
            .map(|(name, zone, is_ready, is_out)| Standing {
                name,
                zone,
                is_ready: *is_ready,
                has_left_traffic: *is_out,
            })
            .collect();
        let granted = self.withdrawals.grant(&nodes, &self.settings, now);
        self.granted.extend(granted);
        let looks = self
            .nodes
            .keys()
            .filter(|name| self.judge(name, now, "").is_some());
        looks.cloned().collect()
    }

    /// The next write on a Node; `time` is the same moment as `now`, RFC 3339.
    pub fn judge(&self, name: &str, now: Instant, time: &str) -> Option<Step> {
        let node = self.nodes.get(name)?;
        judge(node, self.is_silent(name, now), self.leaves_traffic(name), time)
    }

    /// Whether the Pods of a Node are to be out of traffic: its taint says so, and it is not ready.
    pub fn is_out_of_traffic(&self, name: &str) -> bool {
        let node = self.nodes.get(name);
        node.is_some_and(|node| node.has_left_traffic() && !node.is_ready())
    }

    fn leaves_traffic(&self, name: &str) -> bool {
        self.granted.contains(name) || self.nodes.get(name).is_some_and(NodeState::has_left_traffic)
    }

    fn is_silent(&self, name: &str, now: Instant) -> bool {
        let Some(node) = self.nodes.get(name) else {
            return false;
        };
        let renews = node.status("Ready").is_some() && self.heartbeats.renew_time(name).is_some();
        let grace = match renews {
            true => self.settings.monitor_grace_period,
            // Who renews no Lease tells by the status only, which is written less often.
            false => self
                .settings
                .startup_grace_period
                .max(self.settings.monitor_grace_period),
        };
        self.heartbeats
            .silence(name, now)
            .is_some_and(|silence| silence > grace)
    }
}

#[cfg(test)]
mod tests;
