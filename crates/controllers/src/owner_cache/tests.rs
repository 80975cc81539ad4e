use api::object::ReplicaSet;
use serde_json::json;

use super::*;
use crate::replica_set::ReplicaPod;

/// Revision of a complete list.
const LISTED: u64 = 100;

fn set(namespace: &str, name: &str) -> ReplicaSet {
    let set = json!({
        "metadata": {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    });
    serde_json::from_value(set).expect("a ReplicaSet")
}

/// Pod of an owner of this kind and group, or without an owner.
fn pod(namespace: &str, name: &str, owner: Option<(&str, &str)>) -> ReplicaPod {
    let reference = |(version, kind)| json!({"apiVersion": version, "kind": kind, "name": "o", "uid": "o", "controller": true});
    let owners: Vec<_> = owner.into_iter().map(reference).collect();
    let pod = json!({"metadata": {
        "namespace": namespace, "name": name, "uid": name, "resourceVersion": "2",
        "labels": {"app": "web"}, "ownerReferences": owners,
    }});
    serde_json::from_value(pod).expect("a Pod")
}

struct Fixture {
    cache: OwnerCache<ReplicaSet, ReplicaPod>,
    queue: Queue<ObjectKey>,
    now: Instant,
}

impl Fixture {
    /// Returns a cache with the complete list of these owners.
    fn with_owners(owners: Vec<ReplicaSet>) -> Self {
        let mut this = Self {
            cache: OwnerCache::new(|set: &ReplicaSet| &set.spec.selector),
            queue: Queue::default(),
            now: Instant::now(),
        };
        for owner in owners {
            this.apply_owner(Event::Applied(owner));
        }
        this.apply_owner(Event::Synced);
        this
    }

    fn apply_owner(&mut self, event: Event<ReplicaSet>) {
        self.cache
            .apply_owner_event(event, LISTED, &mut self.queue, self.now);
    }

    fn apply(&mut self, pod: ReplicaPod) {
        self.cache
            .apply_owned_event(Event::Applied(pod), LISTED, &mut self.queue, self.now);
    }

    fn is_cached(&self, namespace: &str, name: &str) -> bool {
        self.cache.owned.get(&ObjectKey::new(namespace, name)).is_some()
    }
}

#[test]
fn objects_of_owners_of_other_kinds_are_not_cached() {
    let mut fixture = Fixture::with_owners(vec![set("n", "web")]);
    fixture.apply(pod("n", "own", Some(("apps/v1", "ReplicaSet"))));
    fixture.apply(pod("n", "foreign", Some(("apps/v1", "StatefulSet"))));
    fixture.apply(pod("n", "other-group", Some(("example.com/v1", "ReplicaSet"))));
    assert!(fixture.is_cached("n", "own"));
    assert!(!fixture.is_cached("n", "foreign") && !fixture.is_cached("n", "other-group"));
    // An object of the cache is followed to its new owner.
    let mut adopted = pod("n", "own", Some(("apps/v1", "StatefulSet")));
    adopted.metadata.resource_version = "3".to_owned();
    fixture.apply(adopted);
    let cached = fixture
        .cache
        .owned
        .get(&ObjectKey::new("n", "own"))
        .expect("a Pod");
    assert_eq!(cached.metadata.resource_version, "3");
}

#[test]
fn objects_without_controller_are_cached_beside_owners() {
    let mut fixture = Fixture::with_owners(vec![set("n", "web")]);
    fixture.apply(pod("n", "orphan", None));
    fixture.apply(pod("empty", "orphan", None));
    let mut tracked = pod("empty", "tracked", None);
    tracked.metadata.finalizers = vec!["batch.kubernetes.io/job-tracking".to_owned()];
    fixture.apply(tracked);
    assert!(fixture.is_cached("n", "orphan") && fixture.is_cached("empty", "tracked"));
    assert!(!fixture.is_cached("empty", "orphan"));
}

#[test]
fn first_owner_of_a_namespace_reads_the_objects_that_it_may_adopt() {
    let mut fixture = Fixture::with_owners(vec![set("n", "web")]);
    fixture.apply(pod("empty", "orphan", None));
    let key = ObjectKey::new("empty", "late");
    fixture.apply_owner(Event::Applied(set("empty", "late")));
    assert!(fixture.cache.needs_refresh(&key));
    assert!(!fixture.cache.needs_refresh(&ObjectKey::new("n", "web")));
    // An update with the same selector needs no second read.
    fixture.cache.needs_refresh.clear();
    fixture.apply_owner(Event::Applied(set("empty", "late")));
    assert!(!fixture.cache.needs_refresh(&key));
    let mut changed = set("empty", "late");
    changed.metadata.resource_version = "5".to_owned();
    changed.spec.selector = json!({"matchLabels": {"app": "other"}});
    fixture.apply_owner(Event::Applied(changed));
    assert!(fixture.cache.needs_refresh(&key));
}

#[test]
fn objects_are_cached_until_the_owners_are_known() {
    let mut fixture = Fixture {
        cache: OwnerCache::new(|set: &ReplicaSet| &set.spec.selector),
        queue: Queue::default(),
        now: Instant::now(),
    };
    fixture.apply(pod("n", "early", None));
    assert!(fixture.is_cached("n", "early"));
}

/// ReplicaSet whose selector has a label and a number of requirements.
fn selecting(name: &str, app: &str, requirement_count: usize) -> ReplicaSet {
    let requirements =
        (0..requirement_count).map(|number| json!({"key": format!("k{number}"), "operator": "DoesNotExist"}));
    let requirements: Vec<_> = requirements.collect();
    let mut set = set("n", name);
    set.spec.selector = json!({"matchLabels": {"app": app}, "matchExpressions": requirements});
    set
}

/// Returns the owners that an object without owner, with the label `app=web`, adds to the queue.
fn added(owners: Vec<ReplicaSet>) -> Vec<String> {
    let mut fixture = Fixture::with_owners(owners);
    fixture.queue = Queue::default();
    fixture.apply(pod("n", "orphan", None));
    let mut names = Vec::new();
    while let Some((key, _)) = fixture.queue.take(fixture.now) {
        names.push(key.name.to_string());
    }
    names
}

#[test]
fn owners_whose_selector_matches_may_adopt_an_object() {
    let small = vec![
        selecting("a", "web", 0),
        selecting("b", "db", 0),
        selecting("c", "web", 9_000),
    ];
    assert_eq!(added(small), ["a", "c"]);
}

#[test]
fn owners_after_excessive_selectors_are_added_without_evaluation() {
    let large = vec![
        selecting("a", "db", 6_000),
        selecting("b", "db", 6_000),
        selecting("c", "db", 0),
    ];
    assert_eq!(added(large), ["b", "c"]);
}
