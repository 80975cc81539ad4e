//! Rolling updates: growth of the newest ReplicaSet and reduction of the old ones.

use api::object::ReplicaSet;

use super::bounds::{available_min, is_observed, pods_max};
use super::rollout::{ReplicaSetChange, Rollout};

/// Returns the number of Pods that may be added; `None` while a ReplicaSet may have more Pods than it should.
pub(super) fn surge_room(rollout: &Rollout<'_>) -> Option<i64> {
    let pods: Option<Vec<i64>> = rollout.old.iter().map(|set| pods_max(set)).collect();
    let newest = rollout
        .newest
        .map_or(0, |set| set.spec.replicas.max(set.status.replicas));
    let current_pods = pods?.into_iter().sum::<i64>() + newest;
    Some((rollout.bounds.total_max() - current_pods).max(0))
}

/// Grows the newest ReplicaSet as far as the bounds allow.
pub(super) fn grow_newest(rollout: &Rollout<'_>, newest: &ReplicaSet) -> Option<Vec<ReplicaSetChange>> {
    let (desired, current) = (rollout.bounds.desired, newest.spec.replicas);
    if current == desired {
        return None;
    }
    let replicas = if current > desired {
        desired
    } else {
        current + surge_room(rollout)?.min(desired - current)
    };
    (replicas != current).then(|| vec![rollout.resize(newest, replicas)])
}

/// Shrinks the old ReplicaSets as far as the bounds allow: first by unavailable Pods, then by available ones.
pub(super) fn shrink_old(rollout: &Rollout<'_>, newest: &ReplicaSet) -> Option<Vec<ReplicaSetChange>> {
    let old: Vec<&ReplicaSet> = rollout
        .old
        .iter()
        .filter(|set| set.spec.replicas > 0)
        .copied()
        .collect();
    let mut replicas: Vec<i64> = old.iter().map(|set| set.spec.replicas).collect();
    let available_min_total = rollout.bounds.available_min();
    let total = replicas.iter().sum::<i64>() + newest.spec.replicas;
    // New Pods that are not available yet do not replace old ones.
    let unavailable_new = newest.spec.replicas - available_min(newest);
    let mut removable = total - available_min_total - unavailable_new;
    if removable <= 0 {
        return None;
    }
    // While a spec is not observed, nothing is known about the health of its Pods.
    for (set, replicas) in old.iter().zip(&mut replicas).filter(|(set, _)| is_observed(set)) {
        let unhealthy = (*replicas - available_min(set)).clamp(0, removable);
        *replicas -= unhealthy;
        removable -= unhealthy;
    }
    let available: i64 = old.iter().map(|set| available_min(set)).sum::<i64>() + available_min(newest);
    let mut removable = (available - available_min_total).max(0).min(removable);
    for replicas in &mut replicas {
        let removed = removable.min(*replicas);
        *replicas -= removed;
        removable -= removed;
    }
    let changes = old.iter().zip(replicas);
    let changes = changes.filter(|(set, replicas)| set.spec.replicas != *replicas);
    let changes: Vec<ReplicaSetChange> = changes
        .map(|(set, replicas)| rollout.resize(set, replicas))
        .collect();
    (!changes.is_empty()).then_some(changes)
}
