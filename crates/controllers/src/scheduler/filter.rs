//! The filter of Nodes that cannot run a Pod, with upstream's reasons.
//!
//! The checks have a fixed order: cordon, taints, readiness, node affinity, host ports, resources. The first failed
//! check decides, so a Node has one reason, except that each insufficient resource is one. Affinity between Pods and
//! topology spread need the Pods of all Nodes and are decided elsewhere. [`summary`] counts the Nodes by reason, for
//! the message about a Pod that fits on no Node.

use std::collections::BTreeMap;

use api::object::{Node, Taint};
use api::pod::UsedHostPorts;

use super::bounded_terms::{NODE_TERMS_SIZE_MAX, TERMS_SIZE_MAX};
use super::node_affinity::{is_node_affinity_excessive, matches_node_affinity};
use super::pod::SchedulePod;
use super::resources::Resources;

/// Taint of a cordoned Node.
const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

/// The reason that a Node cannot run a Pod, with upstream's text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub(crate) enum Refusal {
    /// The Node is cordoned.
    #[error("node(s) were unschedulable")]
    Unschedulable,
    /// The Node is not ready.
    #[error("node(s) were not ready")]
    NotReady,
    /// The Pod does not tolerate a taint.
    #[error("node(s) had untolerated taint {{{key}: {value}}}")]
    Tainted {
        /// Key of the taint.
        key: String,
        /// Value of the taint.
        value: String,
    },
    /// The labels do not match the Pod's node selector.
    #[error("node(s) didn't match Pod's node affinity/selector")]
    NodeSelectorMismatch,
    /// A domain would have too many Pods.
    #[error("node(s) didn't match pod topology spread constraints")]
    Spread,
    /// The Node has no label of a topology spread constraint.
    #[error("node(s) didn't match pod topology spread constraints (missing required label)")]
    SpreadLabelMissing,
    /// No Pod of the domain matches the affinity.
    #[error("node(s) didn't match pod affinity rules")]
    Affinity,
    /// A Pod of the domain matches the anti-affinity.
    #[error("node(s) didn't match pod anti-affinity rules")]
    AntiAffinity,
    /// The anti-affinity of a Pod of the domain matches the Pod.
    #[error("node(s) didn't satisfy existing pods anti-affinity rules")]
    AntiAffinityOfOthers,
    /// The terms of the Pod take too many comparisons.
    #[error(
        "pod's affinity terms or topology spread constraints exceeded {max} requirements and values",
        max = TERMS_SIZE_MAX
    )]
    ExcessiveTerms,
    /// The node affinity of the Pod takes too many comparisons.
    #[error("pod's node affinity exceeded {max} terms, requirements and values", max = NODE_TERMS_SIZE_MAX)]
    ExcessiveNodeTerms,
    /// A host port is in use.
    #[error("node(s) didn't have free ports for the requested pod ports")]
    PortTaken,
    /// The Node has its maximum number of Pods.
    #[error("Too many pods")]
    TooManyPods,
    /// This resource is insufficient.
    #[error("Insufficient {0}")]
    Insufficient(&'static str),
}

/// The usage of a Node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeUsage<'a> {
    /// Number of Pods.
    pub pods: i64,
    /// Requested resources.
    pub resources: Resources,
    /// Host ports in use; empty if the Pod to schedule has none.
    pub ports: UsedHostPorts<'a>,
    /// Pods that are spread together with the Pod to schedule.
    pub similar_pods: i64,
}

/// Returns the reasons that the Node cannot run the Pod, up to the first failed check; empty if it can.
pub(crate) fn refusals(pod: &SchedulePod, node: &Node, usage: &NodeUsage<'_>) -> Vec<Refusal> {
    let cordoned = Taint {
        key: UNSCHEDULABLE_TAINT.to_owned(),
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
    if is_node_affinity_excessive(&pod.spec) {
        return vec![Refusal::ExcessiveNodeTerms];
    }
    if !matches_node_affinity(&pod.spec, node) {
        return vec![Refusal::NodeSelectorMismatch];
    }
    if pod.host_ports().any(|port| usage.ports.conflict_with(&port)) {
        return vec![Refusal::PortTaken];
    }
    insufficient_resources(pod, node, usage)
}

/// Returns the resources of the Node that the Pod would exceed.
fn insufficient_resources(pod: &SchedulePod, node: &Node, usage: &NodeUsage<'_>) -> Vec<Refusal> {
    let allocatable = &node.status.allocatable;
    let mut refusals = Vec::new();
    let pods_max = allocatable.get("pods").and_then(|text| text.parse::<i64>().ok());
    if pods_max.is_some_and(|max| usage.pods + 1 > max) {
        refusals.push(Refusal::TooManyPods);
    }
    let (capacity, requests) = (Resources::of(allocatable), pod.requests());
    let total = usage.resources + requests;
    // A Pod without requests always fits. A Node that reports no capacity is not limited.
    if requests.cpu_millis > 0 && allocatable.contains_key("cpu") && total.cpu_millis > capacity.cpu_millis {
        refusals.push(Refusal::Insufficient("cpu"));
    }
    if requests.memory_bytes > 0
        && allocatable.contains_key("memory")
        && total.memory_bytes > capacity.memory_bytes
    {
        refusals.push(Refusal::Insufficient("memory"));
    }
    refusals
}

/// Returns upstream's message for a Pod that fits on no Node.
pub(crate) fn summary(nodes: usize, refusals: &[Refusal]) -> String {
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
