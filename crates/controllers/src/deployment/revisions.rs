//! The numbers of templates, and what else a ReplicaSet says about its Deployment.

use std::collections::BTreeMap;

use api::object::{Deployment, Labels, ReplicaSet};

use super::{Bounds, DESIRED_REPLICAS, MAX_REPLICAS, REVISION, REVISION_HISTORY};

/// Characters of the earlier numbers of a template; the oldest are left out.
const HISTORY_CHARS_MAX: usize = 2_000;
/// Annotations of a Deployment that are its own, and not its ReplicaSets'.
const NOT_PASSED_ON: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];

/// Annotations that change.
pub(super) type Annotations = BTreeMap<String, String>;

/// The number of a ReplicaSet's template; 0 if it has none.
pub(super) fn revision_of(set: &ReplicaSet) -> i64 {
    let revision = set.metadata.annotations.get(REVISION);
    revision.and_then(|revision| revision.parse().ok()).unwrap_or(0)
}

/// The number of the newest template, if these are the older ones.
pub(super) fn next_revision(old: &[&ReplicaSet]) -> i64 {
    old.iter().map(|set| revision_of(set)).max().unwrap_or(0) + 1
}

/// What the newest ReplicaSet has to say and does not; `has` is what it says.
pub(super) fn news_for_newest(deployment: &Deployment, has: &Labels, revision: i64) -> Annotations {
    let is_passed_on = |key: &&String| !NOT_PASSED_ON.contains(&key.as_str());
    let of_deployment = deployment.metadata.annotations.iter();
    let mut news: Annotations = of_deployment
        .filter(|(key, value)| is_passed_on(key) && has.get(*key) != Some(*value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let current = has.get(REVISION);
    let is_older = current.is_none_or(|current| current.parse().unwrap_or(0_i64) < revision);
    if is_older {
        news.insert(REVISION.to_owned(), revision.to_string());
        if let Some(current) = current {
            news.insert(
                REVISION_HISTORY.to_owned(),
                history(has.get(REVISION_HISTORY), current),
            );
        }
    }
    news
}

/// Earlier numbers and one more.
fn history(earlier: Option<&String>, current: &str) -> String {
    let mut numbers: Vec<&str> = earlier.map_or_else(Vec::new, |earlier| earlier.split(',').collect());
    numbers.retain(|number| !number.is_empty());
    numbers.push(current);
    while numbers.len() > 1 && numbers.join(",").len() > HISTORY_CHARS_MAX {
        numbers.remove(0);
    }
    numbers.join(",")
}

/// What a ReplicaSet has to say of how many Pods its Deployment has, and does not.
pub(super) fn news_of_size(bounds: Bounds, has: &Labels) -> Annotations {
    let says = [
        (DESIRED_REPLICAS, bounds.wanted.to_string()),
        (MAX_REPLICAS, bounds.total_max().to_string()),
    ];
    let is_news = |(key, value): &(&str, String)| has.get(*key) != Some(value);
    let news = says.into_iter().filter(is_news);
    news.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// A number that a ReplicaSet says in an annotation.
pub(super) fn number(set: &ReplicaSet, annotation: &str) -> Option<i64> {
    set.metadata.annotations.get(annotation)?.parse().ok()
}

/// How many Pods the Deployment had when it last looked at a ReplicaSet.
pub(super) fn desired_replicas(set: &ReplicaSet) -> Option<i64> {
    number(set, DESIRED_REPLICAS)
}

/// The most Pods that the Deployment could have then.
pub(super) fn max_replicas(set: &ReplicaSet) -> Option<i64> {
    number(set, MAX_REPLICAS)
}
