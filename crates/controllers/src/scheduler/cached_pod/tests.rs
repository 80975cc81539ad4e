use serde_json::{Value, json};

use super::*;

fn view(metadata: Value, spec: Value) -> SchedulePod {
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("a Pod")
}

fn facts(metadata: Value, spec: Value) -> PlacementFacts {
    PlacementFacts::of(&view(metadata, spec), &mut SharedFacts::default())
}

#[test]
fn facts_equal_those_of_the_view() {
    let anti_affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]});
    let pod = view(
        json!({"name": "p", "namespace": "n", "labels": {"app": "web"}}),
        json!({
            "nodeName": "a",
            "containers": [
                {"resources": {"requests": {"cpu": "100m"}}, "ports": [{"hostPort": 80}, {"containerPort": 81}]},
                {"resources": {"limits": {"memory": "1Ki"}}},
            ],
            "initContainers": [{"resources": {"requests": {"cpu": "300m"}}}],
            "affinity": {"podAntiAffinity": anti_affinity},
        }),
    );
    let facts = PlacementFacts::of(&pod, &mut SharedFacts::default());
    assert_eq!(facts.namespace(), "n");
    assert_eq!(facts.labels().get("app"), Some("web"));
    assert_eq!(facts.labels().iter().count(), pod.metadata.labels.len());
    assert_eq!(facts.requests(), pod.requests());
    assert_eq!(
        facts.host_ports().collect::<Vec<_>>(),
        pod.host_ports().collect::<Vec<_>>()
    );
    assert_eq!(
        facts.anti_affinity(),
        &*pod.spec.affinity.pod_anti_affinity.required
    );
    assert_eq!(facts.used_node().map(|node| &**node), Some("a"));
    assert!(!facts.is_terminating());
}

#[test]
fn finished_pods_use_no_node() {
    let mut pod = view(json!({"name": "p"}), json!({"nodeName": "a"}));
    pod.status.phase = "Failed".to_owned();
    let facts = PlacementFacts::of(&pod, &mut SharedFacts::default());
    assert_eq!(facts.used_node(), None);
}

#[test]
fn pods_of_one_owner_or_with_equal_labels_are_spread() {
    let owned = |uid: &str, app: &str| {
        let owners = json!([{"kind": "ReplicaSet", "uid": uid, "controller": true}]);
        facts(
            json!({"name": "p", "labels": {"app": app}, "ownerReferences": owners}),
            json!({}),
        )
    };
    let orphan = |labels: Value| facts(json!({"name": "p", "labels": labels}), json!({}));
    assert!(owned("a", "web").is_spread_with(&owned("a", "api")));
    assert!(!owned("a", "web").is_spread_with(&owned("b", "web")));
    assert!(!owned("a", "web").is_spread_with(&orphan(json!({"app": "web"}))));
    assert!(orphan(json!({"app": "web"})).is_spread_with(&orphan(json!({"app": "web"}))));
    assert!(!orphan(json!({})).is_spread_with(&orphan(json!({}))));
}

#[test]
fn pods_without_a_node_keep_their_view() {
    let mut shared = SharedFacts::default();
    let pending = view(
        json!({"name": "p", "uid": "u", "resourceVersion": "7"}),
        json!({"tolerations": [{"key": "k"}]}),
    );
    let cached = CachedPod::of(pending.clone(), &mut shared);
    assert_eq!(cached.unplaced(), Some(&pending));
    assert_eq!((&*cached.uid(), cached.version()), ("u", 7));
    let placed = CachedPod::of(view(json!({"name": "p"}), json!({"nodeName": "a"})), &mut shared);
    assert_eq!(placed.unplaced(), None);
}

#[test]
fn pods_share_equal_values() {
    let mut shared = SharedFacts::default();
    let mut of = |name: &str| {
        let metadata = json!({"name": name, "labels": {"app": "web"}});
        PlacementFacts::of(&view(metadata, json!({"nodeName": "a"})), &mut shared)
    };
    let (first, second) = (of("p"), of("q"));
    assert!(Arc::ptr_eq(&first.replica, &second.replica));
    assert!(Arc::ptr_eq(&first.node_name, &second.node_name));
}

#[test]
fn later_states_share_the_first_key() {
    let mut shared = SharedFacts::default();
    let mut of = |name: &str| CachedPod::of(view(json!({"name": name}), json!({})), &mut shared);
    let before = of("p");
    of("q");
    let mut after = of("p");
    assert!(!Arc::ptr_eq(&before.key().name, &after.key().name));
    after.share_key_with(&before);
    assert!(Arc::ptr_eq(&before.key().name, &after.key().name));
}
