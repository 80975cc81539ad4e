//! Facts about Nodes, and the CPUs of their zones.

use std::collections::BTreeMap;

use api::decode::quantity_in_thousandths;
use api::object::Node;

use crate::topology_mode::ZoneCpus;

/// Labels of Nodes that do not count for the distribution of endpoints over zones (EPS-18).
const CONTROL_PLANE_LABELS: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];

/// The fields of a Node that the endpoint controllers read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeFacts {
    /// Zone of the Node, if it has one.
    pub zone: Option<String>,
    /// True if the Node counts for the distribution of endpoints: it is ready and not part of the control
    /// plane.
    counts_for_zone: bool,
    /// Allocatable CPU in thousandths; 0 if unknown.
    cpu_millis: u64,
}

impl NodeFacts {
    /// Extracts the facts of `node`.
    pub(crate) fn of(node: &Node) -> Self {
        let labels = &node.metadata.labels;
        let cpus = node.status.allocatable.get("cpu");
        Self {
            zone: node.zone().map(str::to_owned),
            counts_for_zone: node.is_ready()
                && !CONTROL_PLANE_LABELS
                    .iter()
                    .any(|label| labels.contains_key(*label)),
            cpu_millis: cpus
                .and_then(|quantity| quantity_in_thousandths(quantity))
                .and_then(|millis| u64::try_from(millis).ok())
                .unwrap_or(0),
        }
    }
}

/// Returns the CPUs of each zone; `None` if a Node that counts has no zone or no CPUs (EPS-18).
pub(super) fn zone_cpus(nodes: &BTreeMap<String, NodeFacts>) -> ZoneCpus {
    let mut cpus = BTreeMap::new();
    for node in nodes.values().filter(|node| node.counts_for_zone) {
        let zone = node.zone.as_ref().filter(|_| node.cpu_millis > 0)?;
        *cpus.entry(zone.clone()).or_insert(0) += node.cpu_millis;
    }
    Some(cpus)
}
