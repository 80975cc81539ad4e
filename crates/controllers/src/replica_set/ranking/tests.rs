use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T00:00:00Z";

fn pod(name: &str, change: Value) -> ReplicaPod {
    let mut pod = json!({
        "metadata": {"name": name, "uid": name, "creationTimestamp": "2025-12-31T00:00:00Z"},
        "spec": {"nodeName": "n"},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2025-12-31T00:00:00Z"}],
            "containerStatuses": [{"restartCount": 0}],
        },
    });
    merge(&mut pod, &change);
    serde_json::from_value(pod).expect("a Pod")
}

fn merge(target: &mut Value, change: &Value) {
    match change.as_object() {
        Some(fields) => fields
            .iter()
            .for_each(|(field, value)| merge(&mut target[field], value)),
        None => *target = change.clone(),
    }
}

/// Returns the names in the order of deletion.
fn order(pods: &[ReplicaPod], siblings: &[(&str, usize)]) -> Vec<String> {
    let siblings = siblings
        .iter()
        .map(|(node, count)| ((*node).to_owned(), *count))
        .collect();
    let pods: Vec<&ReplicaPod> = pods.iter().collect();
    let ranked = pods_to_delete(&pods, &siblings, pods.len(), NOW.parse().expect("a time"));
    ranked.iter().map(|pod| pod.metadata.name.clone()).collect()
}

#[test]
fn least_useful_pods_are_deleted_first() {
    let pods = [
        pod("whole", json!({})),
        pod(
            "restarted",
            json!({"status": {"containerStatuses": [{"restartCount": 3}]}}),
        ),
        pod(
            "just-ready",
            json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2025-12-31T23:59:00Z"}]}}),
        ),
        pod("crowded", json!({"spec": {"nodeName": "m"}})),
        pod(
            "cheap",
            json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}}),
        ),
        pod(
            "not-ready",
            json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
        ),
        pod(
            "pending",
            json!({"status": {"phase": "Pending", "conditions": []}}),
        ),
        pod(
            "unassigned",
            json!({"spec": {"nodeName": ""}, "status": {"phase": "Pending", "conditions": []}}),
        ),
    ];
    assert_eq!(
        order(&pods, &[("n", 1), ("m", 2)]),
        [
            "unassigned",
            "pending",
            "not-ready",
            "cheap",
            "crowded",
            "just-ready",
            "restarted",
            "whole"
        ]
    );
}

#[test]
fn younger_pods_are_deleted_first_and_ages_are_approximate() {
    let aged = |name: &str, created: &str| pod(name, json!({"metadata": {"creationTimestamp": created}}));
    assert_eq!(
        order(
            &[
                aged("b", "2025-12-30T00:00:00Z"),
                aged("a", "2025-12-31T23:00:00Z")
            ],
            &[]
        ),
        ["a", "b"]
    );
    // Ten and eleven minutes have the same magnitude; the UID decides.
    assert_eq!(
        order(
            &[
                aged("b", "2025-12-31T23:50:00Z"),
                aged("a", "2025-12-31T23:49:00Z")
            ],
            &[]
        ),
        ["a", "b"]
    );
}
