use serde_json::{Value, json};

use super::*;

fn service(annotation: &str, kind: &str) -> Service {
    let service = json!({
        "metadata": {
            "namespace": "d", "name": "s", "uid": "u",
            "annotations": {"service.portolan.dev/egress": annotation},
        },
        "spec": {"type": kind},
    });
    serde_json::from_value(service).expect("a Service")
}

fn slice(name: &str, service: &str, endpoints: Value) -> EndpointSlice {
    let slice = json!({
        "metadata": {"namespace": "d", "name": name, "labels": {SERVICE_NAME_LABEL: service}},
        "addressType": "IPv4", "endpoints": endpoints,
    });
    serde_json::from_value(slice).expect("an EndpointSlice")
}

fn pod(address: &str, namespace: &str) -> Value {
    json!({"addresses": [address], "targetRef": {"kind": "Pod", "namespace": namespace, "name": "p"}})
}

fn addresses(objects: &EgressObjects) -> Vec<String> {
    let service = ObjectKey::new("d", "s");
    let pods = objects.pods_of(&service);
    pods.map(|pod| pod.address.to_string()).collect()
}

#[test]
fn only_load_balancer_services_with_the_value_true_have_egress() {
    let mut objects = EgressObjects::default();
    for (annotation, kind) in [
        ("false", "LoadBalancer"),
        ("yes", "LoadBalancer"),
        ("true", "ClusterIP"),
    ] {
        objects.apply_service(&service(annotation, kind));
        assert_eq!(objects.services().count(), 0, "{annotation} {kind}");
        assert!(!objects.take_changed());
    }
    objects.apply_service(&service("true", "LoadBalancer"));
    assert_eq!(objects.services().count(), 1);
    assert!(objects.take_changed());
    objects.apply_service(&service("true", "LoadBalancer"));
    assert!(!objects.take_changed());
    objects.apply_service(&service("false", "LoadBalancer"));
    assert_eq!(objects.services().count(), 0);
    assert!(objects.take_changed());
}

#[test]
fn endpoints_count_if_they_are_pods_of_the_namespace() {
    let mut objects = EgressObjects::default();
    objects.apply_service(&service("true", "LoadBalancer"));
    let endpoints = json!([
        pod("10.244.1.7", "d"),
        pod("10.244.1.8", "other"),
        {"addresses": ["10.244.1.9"]},
        {"addresses": ["10.244.1.10"], "conditions": {"ready": false},
         "targetRef": {"kind": "Pod", "namespace": "d", "name": "q"}},
    ]);
    objects.take_changed();
    objects.apply_slice(&slice("one", "s", endpoints));
    assert_eq!(addresses(&objects), ["10.244.1.7", "10.244.1.10"]);
    assert!(objects.take_changed());
}

#[test]
fn slices_move_between_services_and_disappear() {
    let mut objects = EgressObjects::default();
    objects.apply_service(&service("true", "LoadBalancer"));
    objects.apply_slice(&slice("one", "s", json!([pod("10.244.1.7", "d")])));
    objects.take_changed();
    objects.apply_slice(&slice("other", "t", json!([pod("10.244.1.8", "d")])));
    assert!(!objects.take_changed());
    objects.apply_slice(&slice("one", "t", json!([pod("10.244.1.7", "d")])));
    assert!(objects.take_changed() && addresses(&objects).is_empty());
    objects.apply_slice(&slice("other", "s", json!([pod("10.244.1.8", "d")])));
    assert_eq!(addresses(&objects), ["10.244.1.8"]);
    objects.take_changed();
    objects.remove_slice(&ObjectKey::new("d", "other"));
    assert!(objects.take_changed() && addresses(&objects).is_empty());
    assert_eq!(objects.slices.len(), 1);
    assert_eq!(objects.slices_of_services.len(), 1);
}

#[test]
fn pods_have_the_node_of_their_endpoint() {
    let mut objects = EgressObjects::default();
    let mut placed = pod("10.244.1.7", "d");
    placed["nodeName"] = json!("n1");
    objects.apply_slice(&slice("one", "s", json!([placed, pod("10.244.1.8", "d")])));
    let service = ObjectKey::new("d", "s");
    let nodes: Vec<Option<&str>> = objects.pods_of(&service).map(|pod| pod.node.as_deref()).collect();
    assert_eq!(nodes, [Some("n1"), None]);
}
