use serde_json::{Value, json};

use super::*;

fn cached(change: impl FnOnce(&mut Value)) -> CachedPod {
    let mut pod = json!({
        "metadata": {"namespace": "n", "name": "p", "uid": "u", "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {"a": "b"}},
        "spec": {"nodeName": "a", "tolerations": [{"key": "k"}]},
        "status": {"phase": "Running"},
    });
    change(&mut pod);
    let pod = serde_json::from_value(pod).expect("a Pod");
    CachedPod::of(pod, &mut SharedValues::default())
}

#[test]
fn pods_keep_the_fields_of_their_eviction() {
    let pod = cached(|_| {});
    assert_eq!(pod.key(), ObjectKey::new("n", "p"));
    assert_eq!((&*pod.uid(), pod.version(), &*pod.node_name), ("u", 7, "a"));
    assert_eq!(pod.tolerations.len(), 1);
    assert_eq!(pod.created, Time::parse("2026-01-01T00:00:00Z"));
    assert!(pod.created.is_some());
    assert!(pod.is_evictable);
    let identity = pod.identity();
    assert_eq!((identity.key(), &*identity.uid), (pod.key(), "u"));
}

#[test]
fn ending_and_mirror_pods_are_not_evictable() {
    assert!(!cached(|pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")).is_evictable);
    assert!(!cached(|pod| pod["status"]["phase"] = json!("Failed")).is_evictable);
    assert!(!cached(|pod| pod["metadata"]["annotations"][MIRROR_ANNOTATION] = json!("u")).is_evictable);
}

#[test]
fn pods_share_equal_values() {
    let mut shared = SharedValues::default();
    let mut of = |name: &str| {
        let spec = json!({"nodeName": "a", "tolerations": [{"key": "k"}]});
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        CachedPod::of(serde_json::from_value(pod).expect("a Pod"), &mut shared)
    };
    let (first, second) = (of("p"), of("q"));
    assert!(Arc::ptr_eq(&first.node_name, &second.node_name));
    assert!(Arc::ptr_eq(&first.tolerations, &second.tolerations));
}
