//! Revisions of templates, and the annotations that a ReplicaSet copies from its Deployment.

use std::collections::BTreeMap;

use api::object::{Deployment, Labels, ReplicaSet};

use super::{Bounds, DESIRED_REPLICAS, MAX_REPLICAS, REVISION, REVISION_HISTORY};

/// Upper bound of the revision history in characters; the oldest revisions are dropped.
const HISTORY_CHARACTERS_MAX: usize = 2_000;
/// Annotations of a Deployment that its ReplicaSets do not copy.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];

/// Annotations to set.
pub(super) type Annotations = BTreeMap<String, String>;

/// Returns the revision of a ReplicaSet's template; 0 if it has none.
pub(super) fn revision_of(set: &ReplicaSet) -> i64 {
    let revision = set.metadata.annotations.get(REVISION);
    revision.and_then(|revision| revision.parse().ok()).unwrap_or(0)
}

/// Returns the revision of the newest template, given the older ReplicaSets.
pub(super) fn next_revision(old: &[&ReplicaSet]) -> i64 {
    old.iter().map(|set| revision_of(set)).max().unwrap_or(0) + 1
}

/// Returns the annotations that the newest ReplicaSet lacks; `has` are its current ones.
pub(super) fn missing_annotations(deployment: &Deployment, has: &Labels, revision: i64) -> Annotations {
    let is_copied = |key: &&String| !NOT_COPIED.contains(&key.as_str());
    let deployment_annotations = deployment.metadata.annotations.iter();
    let mut missing: Annotations = deployment_annotations
        .filter(|(key, value)| is_copied(key) && has.get(*key) != Some(*value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let current = has.get(REVISION);
    let is_older = current.is_none_or(|current| current.parse().unwrap_or(0_i64) < revision);
    if is_older {
        missing.insert(REVISION.to_owned(), revision.to_string());
        if let Some(current) = current {
            missing.insert(
                REVISION_HISTORY.to_owned(),
                history(has.get(REVISION_HISTORY), current),
            );
        }
    }
    missing
}

/// Appends a revision to the history.
fn history(earlier: Option<&String>, current: &str) -> String {
    let mut numbers: Vec<&str> = earlier.map_or_else(Vec::new, |earlier| earlier.split(',').collect());
    numbers.retain(|number| !number.is_empty());
    numbers.push(current);
    while numbers.len() > 1 && numbers.join(",").len() > HISTORY_CHARACTERS_MAX {
        numbers.remove(0);
    }
    numbers.join(",")
}

/// Returns the size annotations that a ReplicaSet lacks.
pub(super) fn missing_size_annotations(bounds: Bounds, has: &Labels) -> Annotations {
    let annotations = [
        (DESIRED_REPLICAS, bounds.desired.to_string()),
        (MAX_REPLICAS, bounds.total_max().to_string()),
    ];
    let is_missing = |(key, value): &(&str, String)| has.get(*key) != Some(value);
    let missing = annotations.into_iter().filter(is_missing);
    missing.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Returns the number in an annotation of a ReplicaSet.
pub(super) fn number(set: &ReplicaSet, annotation: &str) -> Option<i64> {
    set.metadata.annotations.get(annotation)?.parse().ok()
}

/// Returns the desired Pods of the Deployment at the last resize of this ReplicaSet.
pub(super) fn desired_replicas(set: &ReplicaSet) -> Option<i64> {
    number(set, DESIRED_REPLICAS)
}

/// Returns the upper bound of the Deployment's Pods at the last resize of this ReplicaSet.
pub(super) fn max_replicas(set: &ReplicaSet) -> Option<i64> {
    number(set, MAX_REPLICAS)
}
