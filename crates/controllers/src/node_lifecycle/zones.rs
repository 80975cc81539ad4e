//! How fast Nodes are taken out of traffic: zone by zone, slower or not at all where many are lost at once.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use api::object::Node;

use super::Settings;

/// From so many lost Nodes a zone can be unhealthy; of fewer any may be lost by chance.
const LOST_NODES_MIN: usize = 3;

/// A zone: region and zone, from the Node's labels; both may be "".
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Zone {
    region: String,
    zone: String,
}

impl Zone {
    /// The zone that a Node is in.
    pub fn of(node: &Node) -> Self {
        let label = |name: &str| node.metadata.labels.get(name).cloned().unwrap_or_default();
        Self {
            region: label("topology.kubernetes.io/region"),
            zone: label("topology.kubernetes.io/zone"),
        }
    }
}

/// How a zone fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneState {
    /// Most Nodes are ready.
    Normal,
    /// Many are not.
    PartialDisruption,
    /// None is.
    FullDisruption,
}

impl ZoneState {
    /// The state of a zone with so many Nodes that are ready, and that are not.
    pub fn of(ready: usize, lost: usize, settings: &Settings) -> Self {
        let share = lost as f64 / (ready + lost).max(1) as f64;
        match (ready, lost) {
            (0, 1..) => Self::FullDisruption,
            (_, lost) if lost >= LOST_NODES_MIN && share >= settings.unhealthy_zone_threshold => {
                Self::PartialDisruption
            }
            _ => Self::Normal,
        }
    }
}

/// How a Node stands when Nodes are taken out of traffic.
#[derive(Clone, Debug)]
pub struct Standing<'a> {
    /// Its name.
    pub name: &'a str,
    /// Where it is.
    pub zone: &'a Zone,
    /// Whether it is ready.
    pub is_ready: bool,
    /// Whether it has been taken out already.
    pub has_left_traffic: bool,
}

/// When a Node of each zone was taken out of traffic last. Its size is bounded by the number of zones.
#[derive(Debug, Default)]
pub struct Withdrawals {
    last: HashMap<Zone, Instant>,
}

impl Withdrawals {
    /// Chooses the Nodes that leave traffic now, at most one of a zone. If no Node is ready anywhere, none does:
    /// likelier nobody hears them than that all are gone, and what they serve may well be reached by others.
    pub fn grant(&mut self, nodes: &[Standing<'_>], settings: &Settings, now: Instant) -> Vec<String> {
        let mut zones: BTreeMap<&Zone, Vec<&Standing<'_>>> = BTreeMap::new();
        for node in nodes {
            zones.entry(node.zone).or_default().push(node);
        }
        self.last.retain(|zone, _| zones.contains_key(zone));
        if nodes.iter().all(|node| !node.is_ready) {
            return Vec::new();
        }
        let mut granted = Vec::new();
        for (zone, nodes) in zones {
            let waiting = nodes.iter().find(|node| !node.is_ready && !node.has_left_traffic);
            let Some(waiting) = waiting else { continue };
            let pause = pause(&nodes, settings);
            let last = self.last.get(zone);
            let is_due =
                last.is_none_or(|last| now.saturating_duration_since(*last) >= pause.unwrap_or_default());
            if pause.is_some() && is_due {
                self.last.insert(zone.clone(), now);
                granted.push(waiting.name.to_owned());
            }
        }
        granted
    }
}

/// How long to wait between two Nodes of a zone; `None` if none may leave traffic.
fn pause(nodes: &[&Standing<'_>], settings: &Settings) -> Option<Duration> {
    let ready = nodes.iter().filter(|node| node.is_ready).count();
    let rate = match ZoneState::of(ready, nodes.len() - ready, settings) {
        ZoneState::Normal | ZoneState::FullDisruption => settings.eviction_rate_per_second,
        ZoneState::PartialDisruption if nodes.len() > settings.large_cluster_size_threshold => {
            settings.secondary_eviction_rate_per_second
        }
        ZoneState::PartialDisruption => 0.0,
    };
    // A rate of nothing is an endless pause, which no Duration is.
    Duration::try_from_secs_f64(1.0 / rate).ok()
}

#[cfg(test)]
mod tests;
