use serde_json::json;

use super::*;

fn world(trees: impl IntoIterator<Item = serde_json::Value>) -> World {
    let mut builder = World::builder();
    trees.into_iter().for_each(|tree| builder.add(tree));
    builder.build()
}

#[test]
fn lists_arrays_and_bare_objects_are_read() {
    let service = |name: &str| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}});
    let world = world([
        json!({"kind": "List", "apiVersion": "v1", "items": [service("a"), {"kind": "List", "items": [service("b")]}]}),
        json!({"kind": "ServiceList", "apiVersion": "v1", "items": [{"metadata": {"name": "c"}}]}),
        json!([service("d"), null, 7, "text"]),
        json!({"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "items": []}),
        json!({"kind": "Service", "apiVersion": "serving.knative.dev/v1", "metadata": {"name": "e"}}),
        json!({"kind": "Unknown", "metadata": {"name": "f"}}),
        service("d"),
    ]);
    let names: Vec<&str> = world.services().map(|service| service.0.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
    assert!(world.has(Kind::EndpointSlice) && !world.has(Kind::Pod));
}

#[test]
fn invalid_fields_read_as_absent() {
    let world = world([json!({"kind": "Service", "metadata": {"name": "a", "labels": 7},
        "spec": {"ports": [{"port": "80"}, {"port": 99999}, {"port": 80, "targetPort": "web"}], "selector": []}})]);
    let service = world.service("default", "a").expect("the Service");
    assert_eq!(service.ports().len(), 1);
    assert!(!service.has_selector());
    assert_eq!(service.labels().count(), 0);
}

#[test]
fn deep_lists_are_bounded() {
    let mut tree = json!({"kind": "Service", "metadata": {"name": "a"}});
    for _ in 0..100 {
        tree = json!([tree]);
    }
    assert!(world([tree]).is_empty());
}

#[test]
fn pods_are_found_by_all_labels() {
    let pod = |name: &str, labels: serde_json::Value| json!({"kind": "Pod", "metadata": {"name": name, "namespace": "shop", "labels": labels}});
    let world = world([
        pod("a", json!({"app": "web", "tier": "front"})),
        pod("b", json!({"app": "web"})),
    ]);
    let found = world.pods_with("shop", &[("app", "web"), ("tier", "front")]);
    assert_eq!(found.len(), 1);
    assert_eq!(world.pods_with("shop", &[]).len(), 0);
    assert_eq!(world.pods_with("default", &[("app", "web")]).len(), 0);
    assert_eq!(world.lookups(), 1);
}
