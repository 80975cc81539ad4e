//! Rate of evictions in each zone: reduced, or zero, if many of its Nodes fail together.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use api::object::Node;

use super::Settings;

/// Number of Nodes that are not ready from which a zone can be unhealthy. Fewer may fail independently.
const LOST_NODES_MIN: usize = 3;

/// Region and zone of a Node from its labels; both may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Zone {
    region: String,
    zone: String,
}

impl Zone {
    /// Returns the zone of a Node.
    pub fn of(node: &Node) -> Self {
        let label = |name: &str| node.metadata.labels.get(name).cloned().unwrap_or_default();
        Self {
            region: label("topology.kubernetes.io/region"),
            zone: label("topology.kubernetes.io/zone"),
        }
    }
}

/// The state of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneState {
    /// Most Nodes are ready.
    Normal,
    /// Many Nodes are not ready.
    PartialDisruption,
    /// No Node is ready.
    FullDisruption,
}

impl ZoneState {
    /// Returns the state of a zone from the numbers of its Nodes.
    pub fn of(ready: usize, not_ready: usize, settings: &Settings) -> Self {
        let share = not_ready as f64 / (ready + not_ready).max(1) as f64;
        match (ready, not_ready) {
            (0, 1..) => Self::FullDisruption,
            (_, not_ready) if not_ready >= LOST_NODES_MIN && share >= settings.unhealthy_zone_threshold => {
                Self::PartialDisruption
            }
            _ => Self::Normal,
        }
    }
}

/// The health of a Node.
#[derive(Clone, Debug)]
pub struct NodeHealth<'a> {
    /// Name of the Node.
    pub name: &'a str,
    /// Zone of the Node.
    pub zone: &'a Zone,
    /// True if the Node is ready.
    pub is_ready: bool,
    /// True if eviction is granted already, or if the Node never reported its status.
    pub is_eviction_granted: bool,
}

/// Limit of the rate of evictions: the time of the last one in each zone. The number of zones bounds its size.
#[derive(Debug, Default)]
pub struct EvictionLimiter {
    last: HashMap<Zone, Instant>,
}

impl EvictionLimiter {
    /// Selects the Nodes that get the eviction taint, at most one in each zone. If no Node is ready anywhere, none is
    /// selected. A fault of this controller's network is more likely, and clients may still reach the Pods.
    pub fn grant(&mut self, nodes: &[NodeHealth<'_>], settings: &Settings, now: Instant) -> Vec<String> {
        let mut zones: BTreeMap<&Zone, Vec<&NodeHealth<'_>>> = BTreeMap::new();
        for node in nodes {
            zones.entry(node.zone).or_default().push(node);
        }
        self.last.retain(|zone, _| zones.contains_key(zone));
        if nodes.iter().all(|node| !node.is_ready) {
            return Vec::new();
        }
        let mut granted = Vec::new();
        for (zone, nodes) in zones {
            let waiting = nodes
                .iter()
                .find(|node| !node.is_ready && !node.is_eviction_granted);
            let Some(waiting) = waiting else { continue };
            let delay = delay_between_evictions(&nodes, settings);
            let last = self.last.get(zone);
            let is_due =
                last.is_none_or(|last| now.saturating_duration_since(*last) >= delay.unwrap_or_default());
            if delay.is_some() && is_due {
                self.last.insert(zone.clone(), now);
                granted.push(waiting.name.to_owned());
            }
        }
        granted
    }
}

/// Returns the delay between two evictions in a zone; `None` if none is allowed.
fn delay_between_evictions(nodes: &[&NodeHealth<'_>], settings: &Settings) -> Option<Duration> {
    let ready = nodes.iter().filter(|node| node.is_ready).count();
    let rate = match ZoneState::of(ready, nodes.len() - ready, settings) {
        ZoneState::Normal | ZoneState::FullDisruption => settings.eviction_rate_per_second,
        ZoneState::PartialDisruption if nodes.len() > settings.large_cluster_size_threshold => {
            settings.secondary_eviction_rate_per_second
        }
        ZoneState::PartialDisruption => 0.0,
    };
    // A rate of zero results in an infinite delay, which `Duration` cannot represent.
    Duration::try_from_secs_f64(1.0 / rate).ok()
}

#[cfg(test)]
mod tests;
