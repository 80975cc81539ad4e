use api::object::{EndpointSlice, Node, ObjectKey, Pod, Service};
use serde_json::{Value, json};

use super::World;

fn of<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

fn service(name: &str, selector: Value) -> Service {
    of(json!({"metadata": {"name": name, "namespace": "n"}, "spec": {"selector": selector}}))
}

fn pod(name: &str, labels: Value) -> Pod {
    of(json!({"metadata": {"name": name, "namespace": "n", "labels": labels}, "spec": {"nodeName": "node"}}))
}

fn names(keys: Vec<ObjectKey>) -> Vec<String> {
    let mut names: Vec<String> = keys.iter().map(|k| k.name.to_string()).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn a_pod_concerns_the_services_that_chose_it_before_and_after() {
    let mut world = World::default();
    world.apply_service(service("a", json!({"app": "x"})));
    world.apply_service(service("b", json!({"app": "x", "tier": "web"})));
    world.apply_service(service("c", json!({"app": "y"})));
    assert_eq!(names(world.apply_pod(&pod("p", json!({"app": "x"})))), ["a"]);
    assert_eq!(
        names(world.apply_pod(&pod("p", json!({"app": "x", "tier": "web"})))),
        ["a", "b"]
    );
    assert_eq!(
        names(world.apply_pod(&pod("p", json!({"app": "y"})))),
        ["a", "b", "c"]
    );
    assert_eq!(
        names(world.apply_pod(&pod("p", json!({"app": "y"})))),
        Vec::<String>::new(),
        "no change"
    );
    assert_eq!(names(world.remove_pod(&ObjectKey::new("n", "p"))), ["c"]);
    assert!(
        world
            .pods_of("n", &service("c", json!({"app": "y"})).spec.selector)
            .is_empty()
    );
}

#[test]
fn what_no_endpoint_shows_is_no_change() {
    let mut world = World::default();
    world.apply_service(service("a", json!({"app": "x"})));
    let with = |condition: &str| {
        let mut pod = pod("p", json!({"app": "x"}));
        pod.status.conditions = of(json!([{"type": condition, "status": "True"}]));
        pod
    };
    assert_eq!(names(world.apply_pod(&with("Initialized"))), ["a"]);
    assert_eq!(
        names(world.apply_pod(&with("ContainersReady"))),
        Vec::<String>::new()
    );
    assert_eq!(names(world.apply_pod(&with("Ready"))), ["a"]);
}

#[test]
fn a_node_concerns_the_services_of_its_pods_when_its_zone_changes() {
    let node = |zone: &str| -> Node {
        of(json!({"metadata": {"name": "node", "labels": {"topology.kubernetes.io/zone": zone}}}))
    };
    let mut world = World::default();
    world.apply_service(service("a", json!({"app": "x"})));
    world.apply_pod(&pod("p", json!({"app": "x"})));
    assert_eq!(names(world.apply_node(&node("z1"))), ["a"]);
    assert_eq!(names(world.apply_node(&node("z1"))), Vec::<String>::new());
    assert_eq!(names(world.apply_node(&node("z2"))), ["a"]);
    assert_eq!(names(world.remove_node("node")), ["a"]);
}

#[test]
fn old_news_of_a_slice_is_dropped() {
    let slice = |version: &str, ready: bool| -> EndpointSlice {
        of(
            json!({"metadata": {"name": "s-1", "namespace": "n", "resourceVersion": version,
                               "labels": {"kubernetes.io/service-name": "s"}},
                  "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}]}),
        )
    };
    let mut world = World::default();
    let service = ObjectKey::new("n", "s");
    assert_eq!(names(world.slices.apply(slice("10", true))), ["s"]);
    assert!(world.slices.apply(slice("9", false)).is_empty());
    assert_eq!(
        world.slices.of(&service)[0].endpoints[0].conditions.ready,
        Some(true)
    );
    assert_eq!(names(world.slices.apply(slice("100", false))), ["s"]);
    assert_eq!(
        world.slices.of(&service)[0].endpoints[0].conditions.ready,
        Some(false)
    );
}

fn named_slice(uid: &str, version: &str) -> EndpointSlice {
    of(
        json!({"metadata": {"name": "s-1", "namespace": "n", "uid": uid, "resourceVersion": version,
                           "labels": {"kubernetes.io/service-name": "s"}}}),
    )
}

#[test]
fn what_was_deleted_stays_deleted_whatever_the_watch_still_tells() {
    let mut world = World::default();
    let service = ObjectKey::new("n", "s");
    world.slices.apply(named_slice("a", "10"));
    world.slices.deleted(&named_slice("a", "10").metadata);
    assert!(world.slices.apply(named_slice("a", "9")).is_empty());
    assert!(world.slices.of(&service).is_empty());
    // An answer that somebody else's deletion has overtaken.
    world.slices.apply(named_slice("b", "12"));
    world.slices.remove(&ObjectKey::new("n", "s-1"));
    world.slices.answered(named_slice("b", "12"));
    assert!(world.slices.of(&service).is_empty());
}

#[test]
fn a_deletion_that_the_watch_tells_late_does_not_concern_what_came_after() {
    let endpoints = |uid: &str, version: &str| -> api::object::Endpoints {
        of(json!({"metadata": {"name": "e", "namespace": "n", "uid": uid, "resourceVersion": version}}))
    };
    let mut world = World::default();
    let key = ObjectKey::new("n", "e");
    world.endpoints.apply(endpoints("a", "10"));
    world.endpoints.deleted(&endpoints("a", "10").metadata);
    world.endpoints.answered(endpoints("b", "20"));
    assert!(!world.endpoints.remove(&key), "that was a");
    assert!(world.endpoints.get(&key).is_some());
    assert!(
        !world.endpoints.apply(endpoints("b", "20")),
        "known from the answer"
    );
    assert!(world.endpoints.remove(&key), "that is b");
}

#[test]
fn an_answer_of_none_is_about_what_was_known_when_it_was_asked_for() {
    let endpoints = |uid: &str, version: &str| -> api::object::Endpoints {
        of(json!({"metadata": {"name": "e", "namespace": "n", "uid": uid, "resourceVersion": version}}))
    };
    let mut world = World::default();
    let key = ObjectKey::new("n", "e");
    world.endpoints.apply(endpoints("a", "10"));
    world.endpoints.answered_none(&key, None);
    assert!(world.endpoints.get(&key).is_some(), "a came after the question");
    world.endpoints.answered_none(&key, Some("a"));
    assert!(world.endpoints.get(&key).is_none());
    assert!(
        !world.endpoints.apply(endpoints("a", "11")),
        "what the watch tells of it is old"
    );
}

#[test]
fn a_complete_list_settles_what_no_watch_told() {
    let mut world = World::default();
    world.slices.answered(named_slice("a", "10"));
    assert!(world.slices.listed(9).is_empty(), "the list is older");
    assert_eq!(names(world.slices.listed(10)), ["s"]);
    assert!(world.slices.of(&ObjectKey::new("n", "s")).is_empty());
}
