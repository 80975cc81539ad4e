use api::object::{EndpointSlice, Node, ObjectKey, Pod, Service};
use serde_json::{Value, json};

use super::Caches;

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
    let mut names: Vec<String> = keys.iter().map(|key| key.name.to_string()).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn pod_change_affects_the_services_that_select_it_before_and_after() {
    let mut caches = Caches::default();
    caches.apply_service(service("a", json!({"app": "x"})));
    caches.apply_service(service("b", json!({"app": "x", "tier": "web"})));
    caches.apply_service(service("c", json!({"app": "y"})));
    assert_eq!(names(caches.apply_pod(&pod("p", json!({"app": "x"})))), ["a"]);
    assert_eq!(
        names(caches.apply_pod(&pod("p", json!({"app": "x", "tier": "web"})))),
        ["a", "b"]
    );
    assert_eq!(
        names(caches.apply_pod(&pod("p", json!({"app": "y"})))),
        ["a", "b", "c"]
    );
    assert_eq!(
        names(caches.apply_pod(&pod("p", json!({"app": "y"})))),
        Vec::<String>::new(),
        "no change"
    );
    assert_eq!(names(caches.remove_pod(&ObjectKey::new("n", "p"))), ["c"]);
    assert!(
        caches
            .pods_of("n", &service("c", json!({"app": "y"})).spec.selector)
            .is_empty()
    );
}

#[test]
fn replaced_and_removed_selectors_select_no_pods() {
    let mut caches = Caches::default();
    caches.apply_service(service("a", json!({"app": "x"})));
    caches.apply_service(service("b", json!({"app": "x"})));
    caches.apply_service(service("a", json!({"app": "y"})));
    assert_eq!(names(caches.apply_pod(&pod("p", json!({"app": "x"})))), ["b"]);
    assert_eq!(names(caches.apply_pod(&pod("q", json!({"app": "y"})))), ["a"]);
    caches.apply_service(service("a", json!({})));
    caches.remove_service(&ObjectKey::new("n", "b"));
    assert!(caches.apply_pod(&pod("r", json!({"app": "x"}))).is_empty());
    assert!(caches.remove_pod(&ObjectKey::new("n", "q")).is_empty());
    let selector = json!({"app": "x"});
    let selector = serde_json::from_value(selector).expect("labels");
    assert!(
        caches.pods_of("n", &selector).is_empty(),
        "no selector indexes Pods"
    );
}

#[test]
fn changes_without_effect_on_endpoints_affect_nothing() {
    let mut caches = Caches::default();
    caches.apply_service(service("a", json!({"app": "x"})));
    let with = |condition: &str| {
        let mut pod = pod("p", json!({"app": "x"}));
        pod.status.conditions = of(json!([{"type": condition, "status": "True"}]));
        pod
    };
    assert_eq!(names(caches.apply_pod(&with("Initialized"))), ["a"]);
    assert_eq!(
        names(caches.apply_pod(&with("ContainersReady"))),
        Vec::<String>::new()
    );
    assert_eq!(names(caches.apply_pod(&with("Ready"))), ["a"]);
}

#[test]
fn zone_change_affects_the_services_of_the_nodes_pods() {
    let node = |zone: &str| -> Node {
        of(json!({"metadata": {"name": "node", "labels": {"topology.kubernetes.io/zone": zone}}}))
    };
    let mut caches = Caches::default();
    caches.apply_service(service("a", json!({"app": "x"})));
    caches.apply_pod(&pod("p", json!({"app": "x"})));
    assert_eq!(names(caches.apply_node(&node("z1"))), ["a"]);
    assert_eq!(names(caches.apply_node(&node("z1"))), Vec::<String>::new());
    assert_eq!(names(caches.apply_node(&node("z2"))), ["a"]);
    assert_eq!(names(caches.remove_node("node")), ["a"]);
}

#[test]
fn outdated_events_of_slices_are_dropped() {
    let slice = |version: &str, ready: bool| -> EndpointSlice {
        of(
            json!({"metadata": {"name": "s-1", "namespace": "n", "resourceVersion": version,
                               "labels": {"kubernetes.io/service-name": "s"}},
                  "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}]}),
        )
    };
    let mut caches = Caches::default();
    let service = ObjectKey::new("n", "s");
    assert_eq!(names(caches.slices.apply(slice("10", true))), ["s"]);
    assert!(caches.slices.apply(slice("9", false)).is_empty());
    assert_eq!(
        caches.slices.of(&service)[0].endpoints[0].conditions.ready,
        Some(true)
    );
    assert_eq!(names(caches.slices.apply(slice("100", false))), ["s"]);
    assert_eq!(
        caches.slices.of(&service)[0].endpoints[0].conditions.ready,
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
fn deleted_objects_stay_deleted_despite_later_events() {
    let mut caches = Caches::default();
    let service = ObjectKey::new("n", "s");
    caches.slices.apply(named_slice("a", "10"));
    caches.slices.confirm_deletion(&named_slice("a", "10").metadata);
    assert!(caches.slices.apply(named_slice("a", "9")).is_empty());
    assert!(caches.slices.of(&service).is_empty());
    // A response that is older than a foreign deletion.
    caches.slices.apply(named_slice("b", "12"));
    caches.slices.remove(&ObjectKey::new("n", "s-1"));
    caches.slices.apply_response(named_slice("b", "12"));
    assert!(caches.slices.of(&service).is_empty());
}

#[test]
fn late_deletion_events_do_not_remove_successors() {
    let endpoints = |uid: &str, version: &str| -> api::object::Endpoints {
        of(json!({"metadata": {"name": "e", "namespace": "n", "uid": uid, "resourceVersion": version}}))
    };
    let mut caches = Caches::default();
    let key = ObjectKey::new("n", "e");
    caches.endpoints.apply(endpoints("a", "10"));
    caches.endpoints.confirm_deletion(&endpoints("a", "10").metadata);
    caches.endpoints.apply_response(endpoints("b", "20"));
    assert!(
        !caches.endpoints.remove(&key),
        "the deletion of the former object"
    );
    assert!(caches.endpoints.get(&key).is_some());
    assert!(
        !caches.endpoints.apply(endpoints("b", "20")),
        "known from the answer"
    );
    assert!(
        caches.endpoints.remove(&key),
        "the deletion of the current object"
    );
}

#[test]
fn absence_applies_to_the_object_known_at_the_request() {
    let endpoints = |uid: &str, version: &str| -> api::object::Endpoints {
        of(json!({"metadata": {"name": "e", "namespace": "n", "uid": uid, "resourceVersion": version}}))
    };
    let mut caches = Caches::default();
    let key = ObjectKey::new("n", "e");
    caches.endpoints.apply(endpoints("a", "10"));
    caches.endpoints.confirm_absence(&key, None);
    assert!(caches.endpoints.get(&key).is_some(), "a came after the question");
    caches.endpoints.confirm_absence(&key, Some("a"));
    assert!(caches.endpoints.get(&key).is_none());
    assert!(
        !caches.endpoints.apply(endpoints("a", "11")),
        "the watch reports an older version of it"
    );
}

#[test]
fn complete_list_removes_objects_without_events() {
    let mut caches = Caches::default();
    caches.slices.apply_response(named_slice("a", "10"));
    assert!(caches.slices.complete_list(9).is_empty(), "the list is older");
    assert_eq!(names(caches.slices.complete_list(10)), ["s"]);
    assert!(caches.slices.of(&ObjectKey::new("n", "s")).is_empty());
}

#[test]
fn trigger_time_is_dropped_and_other_annotations_stay() {
    let annotations = json!({"endpoints.kubernetes.io/last-change-trigger-time": "t", "a": "b"});
    let mut slice = named_slice("a", "1");
    slice.metadata.annotations = serde_json::from_value(annotations).expect("annotations");
    super::drop_trigger_time(&mut slice.metadata);
    assert_eq!(
        slice.metadata.annotations,
        api::object::Labels::from([("a".to_owned(), "b".to_owned())])
    );
    super::drop_trigger_time(&mut slice.metadata);
    assert_eq!(slice.metadata.annotations.len(), 1);
}
