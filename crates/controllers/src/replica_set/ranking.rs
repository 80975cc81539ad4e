//! Selection of the Pods to delete when a ReplicaSet shrinks, in upstream's order.
//!
//! Pods without a Node come first, then Pods that do not run, then Pods that are not ready. The deletion cost, the number
//! of siblings on the Node, the time since the Pod became ready, restarts and age decide between the others.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;

use jiff::Timestamp;

use super::pod::ReplicaPod;

/// Returns the `count` Pods to delete first. `siblings` counts the active Pods of ReplicaSets with the same
/// owner by Node.
pub(crate) fn pods_to_delete<'a>(
    pods: &[&'a ReplicaPod],
    siblings: &HashMap<String, usize>,
    count: usize,
    now: Timestamp,
) -> Vec<&'a ReplicaPod> {
    let mut ranked: Vec<&ReplicaPod> = pods.to_vec();
    ranked.sort_by(|a, b| compare(a, b, siblings, now));
    ranked.truncate(count);
    ranked
}

/// Returns `Less` if `a` is deleted before `b`.
fn compare(a: &ReplicaPod, b: &ReplicaPod, siblings: &HashMap<String, usize>, now: Timestamp) -> Ordering {
    let siblings_on_node = |pod: &ReplicaPod| siblings.get(&pod.spec.node_name).copied().unwrap_or(0);
    let is_assigned = |pod: &ReplicaPod| !pod.spec.node_name.is_empty();
    is_assigned(a)
        .cmp(&is_assigned(b))
        .then_with(|| phase_rank(a).cmp(&phase_rank(b)))
        .then_with(|| a.is_ready().cmp(&b.is_ready()))
        .then_with(|| a.deletion_cost().cmp(&b.deletion_cost()))
        .then_with(|| Reverse(siblings_on_node(a)).cmp(&Reverse(siblings_on_node(b))))
        .then_with(|| ready_age(a, now).cmp(&ready_age(b, now)))
        .then_with(|| Reverse(a.restarts_max()).cmp(&Reverse(b.restarts_max())))
        .then_with(|| age_class(a.created(), now).cmp(&age_class(b.created(), now)))
        // A stable order of equals.
        .then_with(|| a.metadata.uid.cmp(&b.metadata.uid))
}

fn phase_rank(pod: &ReplicaPod) -> u8 {
    match &*pod.status.phase {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    }
}

fn ready_age(pod: &ReplicaPod, now: Timestamp) -> i64 {
    if pod.is_ready() {
        age_class(pod.ready_since(), now)
    } else {
        -1
    }
}

/// Returns the magnitude of an age, as upstream compares it. Pods of similar age are equal, so that the newest ones are
/// not always deleted first. Returns -1 for an unknown age.
fn age_class(since: Option<Timestamp>, now: Timestamp) -> i64 {
    let Some(since) = since else { return -1 };
    let seconds = now.duration_since(since).as_secs().max(0);
    i64::from(u64::BITS - seconds.unsigned_abs().leading_zeros())
}

#[cfg(test)]
mod tests;
