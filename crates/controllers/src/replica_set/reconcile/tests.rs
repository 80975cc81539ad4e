use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T00:10:00Z";

fn set(spec: Value) -> ReplicaSet {
    let mut set = json!({
        "metadata": {"name": "web", "namespace": "n", "uid": "u", "generation": 2},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web", "tier": "x"}}, "spec": {}}},
    });
    for (field, value) in spec.as_object().expect("fields") {
        set["spec"][field] = value.clone();
    }
    serde_json::from_value(set).expect("a ReplicaSet")
}

fn pod(name: &str, ready_since: Option<&str>) -> ReplicaPod {
    let ready =
        ready_since.map(|since| json!({"type": "Ready", "status": "True", "lastTransitionTime": since}));
    let pod = json!({
        "metadata": {"name": name, "namespace": "n", "uid": name, "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]},
        "spec": {"nodeName": "a"},
        "status": {"phase": "Running", "conditions": ready.into_iter().collect::<Vec<_>>()},
    });
    serde_json::from_value(pod).expect("a Pod")
}

fn outcome(set: &ReplicaSet, pods: &[ReplicaPod]) -> Decision {
    reconcile(&Inputs {
        set,
        pods: &pods.iter().collect::<Vec<_>>(),
        siblings: &HashMap::new(),
        now: NOW.parse().expect("a time"),
    })
}

fn updated(set: &ReplicaSet, pods: &[ReplicaPod]) -> ReplicaSetStatus {
    match outcome(set, pods).step {
        Some(Step::UpdateStatus(status)) => status,
        other => panic!("a status was to be updated, not {other:?}"),
    }
}

#[test]
fn missing_pods_are_created() {
    assert_eq!(outcome(&set(json!({})), &[]).step, Some(Step::Create(2)));
    let mut completion = pod("a", None);
    completion.metadata.deletion_timestamp = Some(NOW.to_owned());
    let mut failed = pod("b", None);
    failed.status.phase = "Failed".to_owned();
    let pods = [completion, failed, pod("c", None)];
    assert_eq!(outcome(&set(json!({})), &pods).step, Some(Step::Create(1)));
    assert_eq!(
        outcome(&set(json!({"replicas": 9_000})), &pods).step,
        Some(Step::Create(BURST))
    );
    let large = json!({"spec": {"containers": [{"args": ["x".repeat(16 << 20)]}]}});
    assert_eq!(
        outcome(&set(json!({"replicas": 9_000, "template": large})), &pods).step,
        Some(Step::Create(3))
    );
}

#[test]
fn surplus_pods_are_deleted() {
    let pods = [pod("a", Some(NOW)), pod("b", None), pod("c", Some(NOW))];
    let Some(Step::Delete(excess_pods)) = outcome(&set(json!({})), &pods).step else {
        panic!("one is too many");
    };
    assert_eq!(
        excess_pods.iter().map(|meta| &*meta.name).collect::<Vec<_>>(),
        ["b"]
    );
}

#[test]
fn status_is_updated_once() {
    let mut set = set(json!({"minReadySeconds": 60}));
    let mut labelled = pod("b", Some("2026-01-01T00:08:00Z"));
    labelled.metadata.labels.insert("tier".to_owned(), "x".to_owned());
    let pods = [pod("a", Some("2026-01-01T00:09:30Z")), labelled];
    let status = updated(&set, &pods);
    assert_eq!(
        (
            status.replicas,
            status.fully_labeled_replicas,
            status.ready_replicas,
            status.available_replicas
        ),
        (2, 1, 2, 1)
    );
    assert_eq!(
        (status.observed_generation, status.terminating_replicas),
        (2, Some(0))
    );
    set.status = status;
    // The other Pod becomes available half a minute later.
    assert_eq!(
        outcome(&set, &pods),
        Decision {
            step: None,
            requeue_after: Some(Duration::from_secs(30)),
        }
    );
}

#[test]
fn adoptions_and_releases_precede_scaling() {
    let mut orphan = pod("a", None);
    orphan.metadata.owner_references.clear();
    let mut relabelled = pod("b", None);
    relabelled.metadata.labels.clear();
    let Some(Step::ChangeOwners(changes)) = outcome(&set(json!({})), &[orphan, relabelled]).step else {
        panic!("adoptions and releases are due");
    };
    assert!(changes[0].is_adoption && changes[0].owners[0].uid == "u");
    assert!(!changes[1].is_adoption && changes[1].owners.is_empty());
}

#[test]
fn terminating_replica_set_creates_and_adopts_no_pods() {
    let mut set = set(json!({}));
    set.metadata.deletion_timestamp = Some(NOW.to_owned());
    let mut orphan = pod("a", None);
    orphan.metadata.owner_references.clear();
    assert_eq!(updated(&set, &[orphan]).replicas, 0);
}
