//! Scaling without, or in the middle of, a rollout: all ReplicaSets change in proportion.

use std::cmp::Reverse;

use api::object::ReplicaSet;

use super::bounds::is_rolling;
use super::revisions::{desired_replicas, max_replicas};
use super::rollout::{ReplicaSetChange, Rollout};

/// Returns the changes that bring the ReplicaSets to the desired number of Pods.
pub(super) fn scale(rollout: &Rollout<'_>) -> Option<Vec<ReplicaSetChange>> {
    let desired = rollout.bounds.desired;
    let active: Vec<&ReplicaSet> = rollout.all().filter(|set| set.spec.replicas > 0).collect();
    let changes = match active.as_slice() {
        [] => match latest(rollout) {
            Some(latest) => vec![rollout.resize(latest, desired)],
            None => Vec::new(),
        },
        [only] => vec![rollout.resize(only, desired)],
        _ if is_saturated(rollout) => {
            let old = rollout.old.iter().filter(|set| set.spec.replicas > 0);
            old.map(|set| rollout.resize(set, 0)).collect()
        }
        several if is_rolling(rollout.deployment) => resize_in_proportion(rollout, several),
        _ => Vec::new(),
    };
    let is_due = |change: &ReplicaSetChange| change.replicas.is_some() || !change.annotations.is_empty();
    let changes: Vec<ReplicaSetChange> = changes.into_iter().filter(is_due).collect();
    (!changes.is_empty()).then_some(changes)
}

/// Returns the ReplicaSet to grow if none has Pods: the newest, or the last one before it.
fn latest<'a>(rollout: &Rollout<'a>) -> Option<&'a ReplicaSet> {
    rollout.newest.or_else(|| rollout.old.last().copied())
}

/// Returns true if the newest ReplicaSet has all desired Pods and was resized to that number.
fn is_saturated(rollout: &Rollout<'_>) -> bool {
    rollout.newest.is_some_and(|newest| {
        newest.spec.replicas == rollout.bounds.desired
            && desired_replicas(newest) == Some(rollout.bounds.desired)
            && newest.status.available_replicas == rollout.bounds.desired
    })
}

/// Resizes all ReplicaSets in proportion; the largest one receives the rounding remainder.
fn resize_in_proportion(rollout: &Rollout<'_>, active: &[&ReplicaSet]) -> Vec<ReplicaSetChange> {
    let allowed = match rollout.bounds.desired {
        0 => 0,
        _ => rollout.bounds.total_max(),
    };
    let total: i64 = active.iter().map(|set| set.spec.replicas).sum();
    let to_add = allowed - total;
    let mut sets = active.to_vec();
    let size = |set: &&ReplicaSet| Reverse(set.spec.replicas);
    // Among equals the newer one grows first, and the older one shrinks first.
    sets.sort_by(|a, b| {
        let age = a.metadata.creation_timestamp.cmp(&b.metadata.creation_timestamp);
        let age = if to_add > 0 { age.reverse() } else { age };
        size(a).cmp(&size(b)).then(age)
    });
    let mut added = 0;
    let mut sizes: Vec<i64> = Vec::with_capacity(sets.len());
    for set in &sets {
        let share = match to_add {
            0 => 0,
            1.. => fraction(rollout, set).min(to_add - added).max(0),
            _ => fraction(rollout, set).max(to_add - added).min(0),
        };
        added += share;
        sizes.push(set.spec.replicas + share);
    }
    if let Some(largest) = sizes.first_mut() {
        *largest = (*largest + to_add - added).max(0);
    }
    let sized = sets.iter().zip(sizes);
    sized.map(|(set, size)| rollout.resize(set, size)).collect()
}

/// Returns the change of one ReplicaSet in proportion to the whole.
fn fraction(rollout: &Rollout<'_>, set: &ReplicaSet) -> i64 {
    if rollout.bounds.desired == 0 {
        return -set.spec.replicas;
    }
    let before = max_replicas(set).filter(|max| *max > 0);
    let before = before.unwrap_or(rollout.deployment.status.replicas);
    if before <= 0 {
        return 0;
    }
    // Round half away from zero.
    let scaled = set.spec.replicas.saturating_mul(rollout.bounds.total_max());
    (scaled.saturating_mul(2) + before) / (2 * before) - set.spec.replicas
}
