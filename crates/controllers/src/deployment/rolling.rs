//! Rolling updates: how far the newest ReplicaSet may grow, and the old ones must shrink.

use api::object::ReplicaSet;

use super::bounds::{available_min, is_seen, pods_max};
use super::reconcile::{Scene, SetChange};

/// How many Pods may be added; `None` if nobody can say at the moment, since a ReplicaSet may still have Pods that it
/// is not to have any more.
pub(super) fn room(scene: &Scene<'_>) -> Option<i64> {
    let pods: Option<Vec<i64>> = scene.old.iter().map(|set| pods_max(set)).collect();
    let newest = scene
        .newest
        .map_or(0, |set| set.spec.replicas.max(set.status.replicas));
    let there = pods?.into_iter().sum::<i64>() + newest;
    Some((scene.bounds.total_max() - there).max(0))
}

/// The newest ReplicaSet with as many Pods as it may have by now, if that is another number.
pub(super) fn grown(scene: &Scene<'_>, newest: &ReplicaSet) -> Option<Vec<SetChange>> {
    let (wanted, has) = (scene.bounds.wanted, newest.spec.replicas);
    if has == wanted {
        return None;
    }
    let replicas = match has > wanted {
        true => wanted,
        false => has + room(scene)?.min(wanted - has),
    };
    (replicas != has).then(|| vec![scene.resized(newest, replicas)])
}

/// The old ReplicaSets with as few Pods as they may have by now: first those are given up that are not available
/// anyway, then as many others as the available Pods allow.
pub(super) fn shrunk(scene: &Scene<'_>, newest: &ReplicaSet) -> Option<Vec<SetChange>> {
    let old: Vec<&ReplicaSet> = scene
        .old
        .iter()
        .filter(|set| set.spec.replicas > 0)
        .copied()
        .collect();
    let mut replicas: Vec<i64> = old.iter().map(|set| set.spec.replicas).collect();
    let fewest = scene.bounds.available_min();
    let total = replicas.iter().sum::<i64>() + newest.spec.replicas;
    // New Pods that are not available yet cannot stand in for old ones.
    let on_the_way = newest.spec.replicas - available_min(newest);
    let mut spare = total - fewest - on_the_way;
    if spare <= 0 {
        return None;
    }
    // Of one that is not seen through at present nobody can say that it is unhealthy.
    for (set, replicas) in old.iter().zip(&mut replicas).filter(|(set, _)| is_seen(set)) {
        let unhealthy = (*replicas - available_min(set)).clamp(0, spare);
        *replicas -= unhealthy;
        spare -= unhealthy;
    }
    let available: i64 = old.iter().map(|set| available_min(set)).sum::<i64>() + available_min(newest);
    let mut spare = (available - fewest).max(0).min(spare);
    for replicas in &mut replicas {
        let going = spare.min(*replicas);
        *replicas -= going;
        spare -= going;
    }
    let changes = old.iter().zip(replicas);
    let changes = changes.filter(|(set, replicas)| set.spec.replicas != *replicas);
    let changes: Vec<SetChange> = changes
        .map(|(set, replicas)| scene.resized(set, replicas))
        .collect();
    (!changes.is_empty()).then_some(changes)
}
