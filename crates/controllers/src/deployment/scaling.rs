//! Another number of Pods, where no template is rolled out, or in the middle of it: then all ReplicaSets get their share.

use std::cmp::Reverse;

use api::object::ReplicaSet;

use super::bounds::is_rolling;
use super::reconcile::{Scene, SetChange};
use super::revisions::max_replicas;

/// The changes that bring the ReplicaSets to the number of Pods that is wanted, if any are due.
pub(super) fn scaled(scene: &Scene<'_>) -> Option<Vec<SetChange>> {
    let wanted = scene.bounds.wanted;
    let active: Vec<&ReplicaSet> = scene.all().filter(|set| set.spec.replicas > 0).collect();
    let changes = match active.as_slice() {
        [] => match latest(scene) {
            Some(latest) => vec![scene.resized(latest, wanted)],
            None => Vec::new(),
        },
        [only] => vec![scene.resized(only, wanted)],
        _ if is_saturated(scene) => {
            let old = scene.old.iter().filter(|set| set.spec.replicas > 0);
            old.map(|set| scene.resized(set, 0)).collect()
        }
        several if is_rolling(scene.deployment) => in_proportion(scene, several),
        _ => Vec::new(),
    };
    let is_due = |change: &SetChange| change.replicas.is_some() || !change.annotations.is_empty();
    let changes: Vec<SetChange> = changes.into_iter().filter(is_due).collect();
    (!changes.is_empty()).then_some(changes)
}

/// The ReplicaSet that grows where none has Pods: the newest, or the last one before it.
fn latest<'a>(scene: &Scene<'a>) -> Option<&'a ReplicaSet> {
    scene.newest.or_else(|| scene.old.last().copied())
}

/// Whether the newest ReplicaSet has all Pods that are wanted, and knew that it was to have so many.
fn is_saturated(scene: &Scene<'_>) -> bool {
    scene.newest.is_some_and(|newest| {
        newest.spec.replicas == scene.bounds.wanted
            && super::revisions::desired_replicas(newest) == Some(scene.bounds.wanted)
            && newest.status.available_replicas == scene.bounds.wanted
    })
}

/// All grow or shrink as the whole does; what rounding leaves is the largest one's.
fn in_proportion(scene: &Scene<'_>, active: &[&ReplicaSet]) -> Vec<SetChange> {
    let allowed = match scene.bounds.wanted {
        0 => 0,
        _ => scene.bounds.total_max(),
    };
    let total: i64 = active.iter().map(|set| set.spec.replicas).sum();
    let to_add = allowed - total;
    let mut sets = active.to_vec();
    let size = |set: &&ReplicaSet| Reverse(set.spec.replicas);
    // Among equals, what grows is what is newer, and what shrinks what is older.
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
            1.. => fraction(scene, set).min(to_add - added).max(0),
            _ => fraction(scene, set).max(to_add - added).min(0),
        };
        added += share;
        sizes.push(set.spec.replicas + share);
    }
    if let Some(largest) = sizes.first_mut() {
        *largest = (*largest + to_add - added).max(0);
    }
    let sized = sets.iter().zip(sizes);
    sized.map(|(set, size)| scene.resized(set, size)).collect()
}

/// By how much a ReplicaSet grows or shrinks with the whole.
fn fraction(scene: &Scene<'_>, set: &ReplicaSet) -> i64 {
    if scene.bounds.wanted == 0 {
        return -set.spec.replicas;
    }
    let before = max_replicas(set).filter(|max| *max > 0);
    let before = before.unwrap_or(scene.deployment.status.replicas);
    if before <= 0 {
        return 0;
    }
    // Rounded to the nearest, half away from zero.
    let scaled = set.spec.replicas.saturating_mul(scene.bounds.total_max());
    (scaled.saturating_mul(2) + before) / (2 * before) - set.spec.replicas
}
