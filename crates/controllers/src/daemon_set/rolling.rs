//! Rolling update of a DaemonSet, within its limits of unavailable and of additional Pods.

use api::apps::IntOrPercent;
use serde_json::Value;

use super::placement::pod_for;
use super::reconcile::DaemonSetPods;
use crate::replica_set::ReplicaPod;
use crate::workload::PodChanges;

/// Returns the number of Nodes that may have an old and a new Pod.
pub(super) fn surge_of(daemons: &DaemonSetPods<'_>) -> usize {
    let strategy = &daemons.inputs.workload.spec.update_strategy;
    if strategy.kind != "RollingUpdate" {
        return 0;
    }
    share_of(&strategy.rolling_update.max_surge, daemons)
}

fn share_of(value: &Value, daemons: &DaemonSetPods<'_>) -> usize {
    let nodes = i64::try_from(daemons.desired().count()).unwrap_or(i64::MAX);
    let share = IntOrPercent::read(value).map_or(0, |share| share.of_rounded_up(nodes));
    usize::try_from(share).unwrap_or(0)
}

/// Returns the next replacements.
pub(super) fn changes(daemons: &DaemonSetPods<'_>) -> PodChanges {
    match surge_of(daemons) {
        0 => replace(daemons),
        surge => add_then_remove(daemons, surge),
    }
}

/// Returns the new and the old Pod of a Node that are not being deleted.
fn pair<'a>(daemons: &DaemonSetPods<'a>, node: &str) -> (Option<&'a ReplicaPod>, Option<&'a ReplicaPod>) {
    let find = |is_new: bool| {
        let mut pods = daemons.on(node).iter().copied();
        pods.find(|pod| pod.is_active() && daemons.is_updated(pod) == is_new)
    };
    (find(true), find(false))
}

/// Deletes old Pods: all unavailable ones, and available ones within `maxUnavailable`.
fn replace(daemons: &DaemonSetPods<'_>) -> PodChanges {
    let limit = &daemons
        .inputs
        .workload
        .spec
        .update_strategy
        .rolling_update
        .max_unavailable;
    let mut budget = share_of(limit, daemons);
    let mut changes = PodChanges::default();
    let mut candidates = Vec::new();
    for node in daemons.desired() {
        let (new, old) = pair(daemons, node);
        let is_available = new.or(old).is_some_and(|pod| daemons.is_available(pod));
        if !is_available {
            budget = budget.saturating_sub(1);
        }
        match old {
            Some(pod) if is_available && new.is_none() => candidates.push(pod),
            Some(pod) => changes.delete.push(pod.metadata.clone()),
            None => {}
        }
    }
    let chosen = candidates.into_iter().take(budget);
    changes.delete.extend(chosen.map(|pod| pod.metadata.clone()));
    changes
}

/// Creates new Pods beside old ones within `maxSurge`, and deletes old Pods whose successor is available.
fn add_then_remove(daemons: &DaemonSetPods<'_>, surge: usize) -> PodChanges {
    let mut budget = surge;
    let mut changes = PodChanges::default();
    let (mut urgent, mut candidates) = (Vec::new(), Vec::new());
    for node in daemons.desired() {
        match pair(daemons, node) {
            (Some(new), Some(old)) if daemons.is_available(new) => changes.delete.push(old.metadata.clone()),
            (Some(_), Some(_)) => budget = budget.saturating_sub(1),
            (None, Some(old)) if daemons.is_available(old) => candidates.push(node),
            (None, Some(_)) => urgent.push(node),
            _ => {}
        }
    }
    let chosen = urgent.into_iter().chain(candidates.into_iter().take(budget));
    let (set, update) = (daemons.inputs.workload, daemons.update);
    let chosen = chosen.take(daemons.created_max());
    changes.create = chosen.map(|node| pod_for(set, node, update)).collect();
    changes
}
