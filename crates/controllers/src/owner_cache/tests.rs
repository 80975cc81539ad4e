use api::object::ReplicaSet;
use reconcile::queue::BackOff;
use serde_json::json;

use super::*;

fn set(name: &str, app: &str, requirement_count: usize) -> ReplicaSet {
    let requirements =
        (0..requirement_count).map(|number| json!({"key": format!("k{number}"), "operator": "DoesNotExist"}));
    let requirements: Vec<_> = requirements.collect();
    let set = json!({
        "metadata": {
            "name": name, "namespace": "n", "uid": name, "resourceVersion": "1", "labels": {"app": app},
        },
        "spec": {"selector": {"matchLabels": {"app": app}, "matchExpressions": requirements}},
    });
    serde_json::from_value(set).expect("a ReplicaSet")
}

/// Returns the owners that an object without owner, with the label `app=web`, adds to the queue.
fn added(owners: Vec<ReplicaSet>) -> Vec<String> {
    let mut cache: OwnerCache<ReplicaSet, ReplicaSet> = OwnerCache::new(|set| &set.spec.selector);
    let now = Instant::now();
    let mut queue = Queue::new(BackOff::default());
    for owner in owners {
        cache.apply_owner_event(Event::Applied(owner), 1, &mut queue, now);
    }
    let mut queue = Queue::new(BackOff::default());
    cache.apply_owned_event(Event::Applied(set("orphan", "web", 0)), 1, &mut queue, now);
    let mut names = Vec::new();
    while let Some((key, _)) = queue.take(now) {
        names.push(key.name.to_string());
    }
    names
}

#[test]
fn owners_whose_selector_matches_may_adopt_an_object() {
    let small = vec![set("a", "web", 0), set("b", "db", 0), set("c", "web", 9_000)];
    assert_eq!(added(small), ["a", "c"]);
}

#[test]
fn owners_after_excessive_selectors_are_added_without_evaluation() {
    let large = vec![set("a", "db", 6_000), set("b", "db", 6_000), set("c", "db", 0)];
    assert_eq!(added(large), ["b", "c"]);
}
