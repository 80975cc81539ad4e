use api::kind::find;
use serde_json::json;

use super::*;

fn pod(node: &str) -> Value {
    json!({"metadata": {"name": "p", "generation": 1}, "spec": {"nodeName": node}, "status": {}})
}

#[test]
fn later_deletes_only_shorten_the_grace_period_of_a_scheduled_pod() {
    let pods = find("", "v1", "pods").unwrap();
    assert_eq!(
        decide(pods, &pod(""), &DeleteOptions::default()),
        Decision::Remove
    );
    let Decision::Mark(marked) = decide(pods, &pod("n"), &DeleteOptions::default()) else {
        panic!("a running Pod is marked first");
    };
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(marked["metadata"]["generation"], 2);
    assert_eq!(
        decide(pods, &marked, &DeleteOptions::default()),
        Decision::Pending
    );
    let sooner = DeleteOptions {
        grace_period_seconds: Some(5),
        ..DeleteOptions::default()
    };
    let Decision::Mark(shortened) = decide(pods, &marked, &sooner) else {
        panic!("the second delete marks the Pod again")
    };
    assert_eq!(shortened["metadata"]["deletionGracePeriodSeconds"], 5);
    assert_eq!(shortened["metadata"]["generation"], 2);
    let now = DeleteOptions {
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    };
    assert_eq!(decide(pods, &shortened, &now), Decision::Remove);
}

#[test]
fn finalizers_keep_a_deleted_object() {
    let services = find("", "v1", "services").unwrap();
    let object = json!({"metadata": {"name": "s", "finalizers": ["example.com/f"]}});
    let Decision::Mark(marked) = decide(services, &object, &DeleteOptions::default()) else {
        panic!("a Service with a finalizer is marked")
    };
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(
        decide(services, &marked, &DeleteOptions::default()),
        Decision::Pending
    );
    let foreground = DeleteOptions {
        propagation: Some(Propagation::Foreground),
        ..DeleteOptions::default()
    };
    let Decision::Mark(marked) = decide(services, &json!({"metadata": {"name": "s"}}), &foreground) else {
        panic!("foreground deletion marks the Service")
    };
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
}

// Upstream: registry/rest/delete.go, `BeforeDelete`, and registry/core/pod/strategy.go, `CheckGracefulDelete`.
#[test]
fn removed_pods_have_a_deletion_mark_without_grace_period() {
    let pods = find("", "v1", "pods").unwrap();
    let unscheduled = removed_state(pods, &pod("")).unwrap();
    assert_eq!(unscheduled["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(unscheduled["metadata"]["generation"], 2);
    assert!(unscheduled["metadata"]["deletionTimestamp"].is_string());
    let Decision::Mark(marked) = decide(pods, &pod("n"), &DeleteOptions::default()) else {
        panic!("a running Pod is marked first");
    };
    let removed = removed_state(pods, &marked).unwrap();
    assert_eq!(removed["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(removed["metadata"]["generation"], 2);
    let services = find("", "v1", "services").unwrap();
    assert_eq!(removed_state(services, &pod("")), None);
}

// Upstream: registry/core/namespace/storage/storage.go, `Delete`.
#[test]
fn terminating_namespaces_have_no_grace_period() {
    let namespaces = find("", "v1", "namespaces").unwrap();
    let namespace = json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}});
    let Decision::Mark(marked) = decide(namespaces, &namespace, &DeleteOptions::default()) else {
        panic!("a Namespace with finalizers is marked first");
    };
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"].get("deletionGracePeriodSeconds"), None);
}

// Upstream: registry/batch/job/strategy.go, `DefaultGarbageCollectionPolicy`.
#[test]
fn jobs_orphan_their_pods_without_a_policy() {
    let jobs = find("batch", "v1", "jobs").unwrap();
    let job = json!({"metadata": {"name": "j"}});
    let Decision::Mark(marked) = decide(jobs, &job, &DeleteOptions::default()) else {
        panic!("a Job is marked until its Pods are orphaned");
    };
    assert_eq!(marked["metadata"]["finalizers"], json!(["orphan"]));
    let background = DeleteOptions {
        propagation: Some(Propagation::Background),
        ..DeleteOptions::default()
    };
    assert_eq!(decide(jobs, &job, &background), Decision::Remove);
    let foreground = json!({"metadata": {"name": "j", "finalizers": ["foregroundDeletion"],
        "deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert_eq!(
        decide(jobs, &foreground, &DeleteOptions::default()),
        Decision::Pending
    );
}
