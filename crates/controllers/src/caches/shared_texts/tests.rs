use api::object::Pod;
use serde_json::json;

use super::super::Caches;
use super::*;

fn pod(name: &str, uid: &str) -> Pod {
    let pod = json!({
        "metadata": {"namespace": "n", "name": name, "uid": uid, "labels": {"app": "web"}},
        "spec": {"nodeName": "node-1"},
        "status": {"podIPs": [{"ip": "10.0.0.1"}]},
    });
    serde_json::from_value(pod).expect("a Pod")
}

fn target(name: &str, uid: &str) -> serde_json::Value {
    json!({"kind": "Pod", "namespace": "n", "name": name, "uid": uid})
}

fn cached(caches: &Caches) -> &PodFacts {
    caches.pods.get(&ObjectKey::new("n", "a")).expect("a Pod")
}

#[test]
fn endpoints_share_the_values_of_their_pods() {
    let mut caches = Caches::default();
    caches.apply_pod(&pod("a", "u"));
    let slice = json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": [
        {"addresses": ["10.0.0.1"], "nodeName": "node-1", "targetRef": target("a", "u")},
        {"addresses": ["10.0.0.1"], "nodeName": "node-1", "targetRef": target("a", "earlier")},
    ]});
    let before: EndpointSlice = serde_json::from_value(slice).expect("a slice");
    let mut slice = before.clone();
    caches.pods.share_with_slice(&mut slice);
    assert_eq!(slice, before);
    let pod = cached(&caches);
    let shared = |index: usize| {
        let endpoint = &slice.endpoints[index];
        let target = endpoint.target_ref.as_ref().expect("a target");
        let node = endpoint.node_name.as_ref().expect("a node");
        [
            Arc::ptr_eq(target, &pod.target),
            Arc::ptr_eq(node, &pod.node_name),
            Arc::ptr_eq(&endpoint.addresses[0], &pod.addresses[0]),
        ]
    };
    assert_eq!(shared(0), [true; 3]);
    // An earlier Pod of that name is another object.
    assert_eq!(shared(1), [false; 3]);
    let address = json!({"ip": "10.0.0.1", "nodeName": "node-1", "targetRef": target("a", "u")});
    let subsets = json!([{"addresses": [address]}]);
    let mut endpoints = Endpoints {
        subsets: serde_json::from_value(subsets).expect("subsets"),
        ..Endpoints::default()
    };
    caches.pods.share_with_endpoints(&mut endpoints);
    let address = &endpoints.subsets[0].addresses[0];
    let target = address.target_ref.as_ref().expect("a target");
    let node = address.node_name.as_ref().expect("a node");
    assert!(Arc::ptr_eq(target, &pod.target));
    assert!(Arc::ptr_eq(node, &pod.node_name));
    assert!(Arc::ptr_eq(&address.ip, &pod.addresses[0]));
}

#[test]
fn reference_to_a_pod_survives_its_updates() {
    let mut caches = Caches::default();
    caches.apply_pod(&pod("a", "u"));
    let target = Arc::clone(&cached(&caches).target);
    let mut changed = pod("a", "u");
    changed
        .metadata
        .labels
        .insert("tier".to_owned(), "front".to_owned());
    caches.apply_pod(&changed);
    assert!(Arc::ptr_eq(&target, &cached(&caches).target));
}

#[test]
fn endpoints_of_a_zone_share_its_name() {
    let endpoint = |zone: &str| json!({"addresses": ["10.0.0.1"], "zone": zone});
    let endpoints = json!([endpoint("a"), endpoint("b"), endpoint("a")]);
    let slice = json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": endpoints});
    let before: EndpointSlice = serde_json::from_value(slice).expect("a slice");
    let mut slice = before.clone();
    Caches::default().pods.share_with_slice(&mut slice);
    assert_eq!(slice, before);
    let zone = |index: usize| slice.endpoints[index].zone.as_ref().expect("a zone");
    assert!(Arc::ptr_eq(zone(0), zone(2)));
}
