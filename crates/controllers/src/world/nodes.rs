//! What matters of Nodes, and the CPUs of their zones.

use std::collections::BTreeMap;

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
    /// Whether new Pods may be put on it: ready, not cordoned, without taints that keep Pods away.
    pub accepts_pods: bool,
    /// Whether endpoints are shared out with regard to it: ready, and not of the control plane.
    counts_for_zone: bool,
    /// Allocatable CPU in thousandths, 0 if not known.
    cpu_millis: u64,
}

impl NodeFacts {
    /// The facts about `node`.
    pub fn of(node: &Node) -> Self {
        let keeps_away = |effect: &str| matches!(effect, "NoSchedule" | "NoExecute");
        let labels = &node.metadata.labels;
        let cpus = node.status.allocatable.get("cpu");
        Self {
            zone: node.zone().map(str::to_owned),
            accepts_pods: node.is_ready()
                && !node.spec.unschedulable
                && !node.spec.taints.iter().any(|taint| keeps_away(&taint.effect)),
            counts_for_zone: node.is_ready()
                && !CONTROL_PLANE_LABELS
                    .iter()
                    .any(|label| labels.contains_key(*label)),
            cpu_millis: cpus.and_then(|quantity| cpu_millis(quantity)).unwrap_or(0),
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

/// A quantity of CPUs as nodes state it, `4`, `0.5` or `3920m`, in thousandths of a CPU.
fn cpu_millis(quantity: &str) -> Option<u64> {
    match quantity.strip_suffix('m') {
        Some(millis) => millis.parse().ok(),
        None => {
            let cpus: f64 = quantity.parse().ok()?;
            // Saturates at the bounds of u64 and turns what is no number into 0.
            Some((cpus * 1_000.0) as u64)
        }
    }
}
