//! Selection of the best Node for a Pod.

use api::object::Node;

use super::constraints::Constraints;
use super::filter::{NodeUsage, Refusal, refusals};
use super::pod::SchedulePod;
use super::resources::Resources;

/// Resolution of load comparisons; smaller differences do not count.
const LOAD_PARTS: i64 = 1_000;

/// Returns the best Node for a Pod among those that can run it. The first criterion is the number of PreferNoSchedule
/// taints that the Pod does not tolerate. Further criteria are the number of Pods to be spread with the Pod, the load,
/// and the number of Pods. Lower values are better.
///
/// # Errors
/// Returns the reasons of all Nodes if none can run the Pod.
pub(super) fn choose_node<'a>(
    pod: &SchedulePod,
    nodes: &[(&'a Node, NodeUsage<'_>)],
    constraints: &Constraints<'_>,
) -> Result<&'a Node, Vec<Refusal>> {
    let mut all_reasons = Vec::new();
    let mut best = None;
    for (node, usage) in nodes {
        let mut reasons = refusals(pod, node, usage);
        if reasons.is_empty() {
            reasons.extend(constraints.refusal(node));
        }
        if !reasons.is_empty() {
            all_reasons.extend(reasons);
            continue;
        }
        let avoided = node.spec.taints.iter();
        let avoided = avoided.filter(|taint| taint.effect == "PreferNoSchedule" && !pod.tolerates(taint));
        let cost = (
            avoided.count(),
            usage.similar_pods,
            load(pod, node, usage),
            usage.pods,
        );
        if best.as_ref().is_none_or(|(lowest, _)| cost < *lowest) {
            best = Some((cost, *node));
        }
    }
    best.map(|(_, node)| node).ok_or(all_reasons)
}

/// Returns the load of the Node with the Pod: the largest used fraction of a resource, in thousandths.
fn load(pod: &SchedulePod, node: &Node, usage: &NodeUsage<'_>) -> i64 {
    let capacity = Resources::of(&node.status.allocatable);
    let taken = usage.resources + pod.requests();
    let share = |taken: i64, of: i64| taken.saturating_mul(LOAD_PARTS).checked_div(of).unwrap_or(0);
    share(taken.cpu_millis, capacity.cpu_millis).max(share(taken.memory_bytes, capacity.memory_bytes))
}

#[cfg(test)]
mod tests;
