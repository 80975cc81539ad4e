//! Which Pods go first when there are too many: those that do least, and those whose loss is felt least.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;

use jiff::Timestamp;

use super::pod::ReplicaPod;

/// The `count` Pods that go first; `siblings` are all active Pods of ReplicaSets with the same owner, these included,
/// by Node.
pub(super) fn first_to_go<'a>(
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

/// `Less` for the one that goes first.
fn compare(a: &ReplicaPod, b: &ReplicaPod, siblings: &HashMap<String, usize>, now: Timestamp) -> Ordering {
    let crowd = |pod: &ReplicaPod| siblings.get(&pod.spec.node_name).copied().unwrap_or(0);
    let is_assigned = |pod: &ReplicaPod| !pod.spec.node_name.is_empty();
    is_assigned(a)
        .cmp(&is_assigned(b))
        .then_with(|| phase(a).cmp(&phase(b)))
        .then_with(|| a.is_ready().cmp(&b.is_ready()))
        .then_with(|| a.deletion_cost().cmp(&b.deletion_cost()))
        .then_with(|| Reverse(crowd(a)).cmp(&Reverse(crowd(b))))
        .then_with(|| ready_age(a, now).cmp(&ready_age(b, now)))
        .then_with(|| Reverse(a.restarts_max()).cmp(&Reverse(b.restarts_max())))
        .then_with(|| age_class(a.created(), now).cmp(&age_class(b.created(), now)))
        // Among equals it makes no difference, as long as it is the same each time.
        .then_with(|| a.metadata.uid.cmp(&b.metadata.uid))
}

fn phase(pod: &ReplicaPod) -> u8 {
    match &*pod.status.phase {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    }
}

fn ready_age(pod: &ReplicaPod, now: Timestamp) -> i64 {
    match pod.is_ready() {
        true => age_class(pod.ready_since(), now),
        false => -1,
    }
}

/// Ages count by their magnitude only, so that Pods of about the same age are chosen among by chance: else the newest
/// part of a fleet would always be the one that goes. -1 if the age is not known, which goes first.
fn age_class(since: Option<Timestamp>, now: Timestamp) -> i64 {
    let Some(since) = since else { return -1 };
    let seconds = now.duration_since(since).as_secs().max(0);
    i64::from(u64::BITS - seconds.unsigned_abs().leading_zeros())
}

#[cfg(test)]
mod tests;
