//! Which Nodes can take a Pod, and why the others cannot.

use std::collections::BTreeMap;

use api::object::{Node, Taint};

use super::pod::{SchedulePod, SchedulePort};
use super::resources::Resources;

/// The taint of a Node that somebody cordoned.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Why a Node does not take a Pod; the texts are those that people know from upstream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Refusal {
    /// It is cordoned.
    #[error("node(s) were unschedulable")]
    Unschedulable,
    /// It is not ready.
    #[error("node(s) were not ready")]
    NotReady,
    /// It has a taint.
    #[error("node(s) had untolerated taint {{{key}: {value}}}")]
    Tainted {
        /// The taint's key.
        key: String,
        /// The taint's value.
        value: String,
    },
    /// It lacks a label.
    #[error("node(s) didn't match Pod's node affinity/selector")]
    OtherLabels,
    /// A port of it is taken.
    #[error("node(s) didn't have free ports for the requested pod ports")]
    PortTaken,
    /// It has as many Pods as it may have.
    #[error("Too many pods")]
    TooManyPods,
    /// What is left of something is too little.
    #[error("Insufficient {0}")]
    Insufficient(&'static str),
}

/// What the Pods on a Node take of it.
#[derive(Clone, Debug, Default)]
pub struct Occupied<'a> {
    /// How many there are.
    pub pods: i64,
    /// What is kept for them.
    pub resources: Resources,
    /// Ports of the Node that are taken.
    pub ports: Vec<&'a SchedulePort>,
    /// Those that are spread over Nodes together with the Pod that is looked at.
    pub like: i64,
}

/// Why a Node does not take a Pod, by the first thing that is in the way; nothing if it does.
pub fn refusals(pod: &SchedulePod, node: &Node, occupied: &Occupied<'_>) -> Vec<Refusal> {
    let cordoned = Taint {
        key: UNSCHEDULABLE.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if node.spec.unschedulable && !pod.tolerates(&cordoned) {
        return vec![Refusal::Unschedulable];
    }
    let keeps_away = |taint: &&Taint| matches!(&*taint.effect, "NoSchedule" | "NoExecute");
    let mut taints = node.spec.taints.iter().filter(keeps_away);
    if let Some(taint) = taints.find(|taint| !pod.tolerates(taint)) {
        return vec![Refusal::Tainted {
            key: taint.key.clone(),
            value: taint.value.clone(),
        }];
    }
    if !node.is_ready() {
        return vec![Refusal::NotReady];
    }
    let labels = &node.metadata.labels;
    let mut selector = pod.spec.node_selector.iter();
    if selector.any(|(key, value)| labels.get(key) != Some(value)) {
        return vec![Refusal::OtherLabels];
    }
    if pod
        .host_ports()
        .any(|port| occupied.ports.iter().any(|taken| collide(port, taken)))
    {
        return vec![Refusal::PortTaken];
    }
    insufficient(pod, node, occupied)
}

fn insufficient(pod: &SchedulePod, node: &Node, occupied: &Occupied<'_>) -> Vec<Refusal> {
    let has = &node.status.allocatable;
    let mut refusals = Vec::new();
    let pods_max = has.get("pods").and_then(|text| text.parse::<i64>().ok());
    if pods_max.is_some_and(|max| occupied.pods + 1 > max) {
        refusals.push(Refusal::TooManyPods);
    }
    let (capacity, needs) = (Resources::of(has), pod.requests());
    let together = occupied.resources + needs;
    // Who asks for nothing fits anywhere, and so does everybody where nobody says how much there is.
    if needs.cpu_millis > 0 && has.contains_key("cpu") && together.cpu_millis > capacity.cpu_millis {
        refusals.push(Refusal::Insufficient("cpu"));
    }
    if needs.memory_bytes > 0 && has.contains_key("memory") && together.memory_bytes > capacity.memory_bytes {
        refusals.push(Refusal::Insufficient("memory"));
    }
    refusals
}

fn collide(a: &SchedulePort, b: &SchedulePort) -> bool {
    let is_any = |port: &SchedulePort| matches!(&*port.host_ip, "" | "0.0.0.0" | "::");
    a.host_port == b.host_port
        && a.protocol == b.protocol
        && (is_any(a) || is_any(b) || a.host_ip == b.host_ip)
}

/// The sentence that says why none of so many Nodes takes a Pod.
pub fn summary(nodes: usize, refusals: &[Refusal]) -> String {
    if nodes == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for refusal in refusals {
        *counts.entry(refusal.to_string()).or_default() += 1;
    }
    let mut reasons: Vec<String> = counts
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    reasons.sort_unstable();
    format!("0/{nodes} nodes are available: {}.", reasons.join(", "))
}

#[cfg(test)]
mod tests;
