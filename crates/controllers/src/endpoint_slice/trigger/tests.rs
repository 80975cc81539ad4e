use std::sync::Arc;

use api::object::{Pod, Service};
use serde_json::json;

use super::TriggerTimes;
use crate::caches::PodFacts;
use crate::caches::interner::Interner;

fn service(created: &str) -> Service {
    let metadata = json!({"name": "s", "namespace": "n", "creationTimestamp": created});
    serde_json::from_value(json!({"metadata": metadata})).expect("a Service")
}

fn pod(name: &str, ready_since: Option<&str>) -> PodFacts {
    let condition = json!({"type": "Ready", "status": "True", "lastTransitionTime": ready_since});
    let pod: Pod =
        serde_json::from_value(json!({"metadata": {"name": name}, "status": {"conditions": [condition]}}))
            .expect("a Pod");
    PodFacts::of(&pod, &mut Interner::default())
}

fn advance(times: &mut TriggerTimes, created: &str, pods: &[PodFacts]) -> Option<String> {
    let pods: Vec<&PodFacts> = pods.iter().collect();
    let time = times
        .advance(&service(created), &pods)
        .map(|time| time.to_string());
    times.written(&service(created).metadata.key());
    time
}

const CREATED: &str = "2026-01-01T00:00:00Z";

#[test]
fn first_trigger_time_is_the_creation_of_the_service() {
    let mut times = TriggerTimes::default();
    let pods = [pod("a", Some("2025-01-01T00:00:00Z"))];
    assert_eq!(advance(&mut times, CREATED, &pods).as_deref(), Some(CREATED));
    assert_eq!(
        advance(&mut times, CREATED, &pods),
        None,
        "the Pods are unchanged"
    );
}

#[test]
fn later_trigger_times_are_the_earliest_change_of_a_pod() {
    let mut times = TriggerTimes::default();
    advance(&mut times, CREATED, &[pod("a", Some(CREATED)), pod("c", None)]);
    let changed = [
        pod("a", Some("2026-01-01T00:00:09Z")),
        pod("b", Some("2026-01-01T00:00:07.5Z")),
        pod("c", None),
    ];
    assert_eq!(
        advance(&mut times, CREATED, &changed).as_deref(),
        Some("2026-01-01T00:00:07.5Z")
    );
    assert_eq!(
        advance(&mut times, CREATED, &changed[..1]),
        None,
        "a deletion has no time of its own"
    );
}

#[test]
fn recreated_service_triggers_by_its_creation() {
    let mut times = TriggerTimes::default();
    advance(&mut times, CREATED, &[]);
    let again = "2026-01-02T00:00:00Z";
    assert_eq!(advance(&mut times, again, &[]).as_deref(), Some(again));
    times.remove(&service(CREATED).metadata.key());
    assert_eq!(advance(&mut times, again, &[]).as_deref(), Some(again));
}

#[test]
fn failed_writes_keep_their_trigger_time() {
    let mut times = TriggerTimes::default();
    advance(&mut times, CREATED, &[]);
    let (first, second) = ("2026-01-01T00:00:05Z", "2026-01-01T00:00:06Z");
    let pods = [pod("a", Some(first)), pod("b", Some(second))];
    let failed = times.advance(&service(CREATED), &[&pods[0]]);
    assert_eq!(failed.map(|time| time.to_string()).as_deref(), Some(first));
    assert_eq!(advance(&mut times, CREATED, &pods).as_deref(), Some(first));
    assert_eq!(advance(&mut times, CREATED, &pods), None);
}

#[test]
fn tables_share_the_pods_of_a_service_while_they_are_the_same() {
    let (mut slices, mut endpoints) = (TriggerTimes::default(), TriggerTimes::default());
    let key = service(CREATED).metadata.key();
    let pods = [pod("a", Some(CREATED)), pod("b", None)];
    advance(&mut slices, CREATED, &pods);
    endpoints.share_with(&slices, &key);
    advance(&mut endpoints, CREATED, &pods);
    let is_shared = |slices: &TriggerTimes, endpoints: &TriggerTimes| {
        Arc::ptr_eq(&slices.services[&key].pods, &endpoints.services[&key].pods)
    };
    assert!(!is_shared(&slices, &endpoints));
    endpoints.share_with(&slices, &key);
    assert!(is_shared(&slices, &endpoints));
    let changed = [pod("a", Some("2026-01-01T00:00:09Z"))];
    assert!(advance(&mut slices, CREATED, &changed).is_some());
    slices.share_with(&endpoints, &key);
    assert!(!is_shared(&slices, &endpoints));
    assert!(advance(&mut endpoints, CREATED, &changed).is_some());
}
