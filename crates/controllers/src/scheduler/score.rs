//! Which of the Nodes that can take a Pod is best.

use api::object::Node;

use super::filter::{Occupied, Refusal, refusals};
use super::pod::SchedulePod;
use super::resources::Resources;

/// Parts in which a Node's load is compared: finer differences do not count.
const PARTS: i64 = 1_000;

/// The Node for a Pod: of those that can take it the one with the fewest taints that would rather not have it, then
/// the fewest Pods that are spread together with it, then the least load, then the fewest Pods.
///
/// # Errors
/// Why each of the Nodes cannot take it.
pub fn choose<'a>(pod: &SchedulePod, nodes: &[(&'a Node, Occupied<'_>)]) -> Result<&'a Node, Vec<Refusal>> {
    let mut refused = Vec::new();
    let mut best = None;
    for (node, occupied) in nodes {
        let why = refusals(pod, node, occupied);
        if !why.is_empty() {
            refused.extend(why);
            continue;
        }
        let unwelcome = node.spec.taints.iter();
        let unwelcome = unwelcome.filter(|taint| taint.effect == "PreferNoSchedule" && !pod.tolerates(taint));
        let place = (
            unwelcome.count(),
            occupied.like,
            load(pod, node, occupied),
            occupied.pods,
        );
        if best.as_ref().is_none_or(|(best, _)| place < *best) {
            best = Some((place, *node));
        }
    }
    best.map(|(_, node)| node).ok_or(refused)
}

/// How much of the Node would be taken, in parts of it, by what is taken most.
fn load(pod: &SchedulePod, node: &Node, occupied: &Occupied<'_>) -> i64 {
    let capacity = Resources::of(&node.status.allocatable);
    let taken = occupied.resources + pod.requests();
    let share = |taken: i64, of: i64| taken.saturating_mul(PARTS).checked_div(of).unwrap_or(0);
    share(taken.cpu_millis, capacity.cpu_millis).max(share(taken.memory_bytes, capacity.memory_bytes))
}

#[cfg(test)]
mod tests;
