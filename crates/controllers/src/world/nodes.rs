//! What matters of Nodes, and the CPUs of their zones.

use std::collections::BTreeMap;

use api::decode::quantity_in_thousandths;
use api::object::Node;

use crate::endpointslice::topology::ZoneCpus;

/// Labels of Nodes that do not count where endpoints are shared out among zones (EPS-18).
const CONTROL_PLANE_LABELS: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];

/// What the controllers need of a Node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFacts {
    /// Its zone, if it has one.
    pub zone: Option<String>,
    /// Whether endpoints are shared out with regard to it: ready, and not of the control plane.
    counts_for_zone: bool,
    /// Allocatable CPU in thousandths, 0 if not known.
    cpu_millis: u64,
}

impl NodeFacts {
    /// The facts about `node`.
    pub fn of(node: &Node) -> Self {
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

/// The CPUs of each zone, if all nodes that count say theirs (EPS-18).
pub(super) fn zone_cpus(nodes: &BTreeMap<String, NodeFacts>) -> ZoneCpus {
    let mut cpus = BTreeMap::new();
    for node in nodes.values().filter(|node| node.counts_for_zone) {
        let zone = node.zone.as_ref().filter(|_| node.cpu_millis > 0)?;
        *cpus.entry(zone.clone()).or_insert(0) += node.cpu_millis;
    }
    Some(cpus)
}
