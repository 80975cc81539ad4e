use serde_json::{Value, json};

use super::*;
use crate::caches::Shared;

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).expect("a time")
}

fn pod(tolerations: Value) -> EvictionPod {
    let metadata = json!({"name": "p", "creationTimestamp": time(0).to_string()});
    serde_json::from_value(
        json!({"metadata": metadata, "spec": {"nodeName": "a", "tolerations": tolerations}}),
    )
    .expect("a Pod")
}

fn taint(key: &str, effect: &str) -> Taint {
    serde_json::from_value(json!({"key": key, "effect": effect})).expect("a taint")
}

fn stay(tolerations: Value, second: i64) -> RemainingTime {
    let taints = no_execute_taints(&[taint("k", "NoExecute")], &[], time(10));
    remaining(&pod(tolerations), &taints, time(second))
}

#[test]
fn untolerated_taint_evicts_at_once() {
    assert_eq!(stay(json!([]), 10), RemainingTime::Over);
    let other = json!([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]);
    assert_eq!(stay(other, 10), RemainingTime::Over);
}

#[test]
fn toleration_seconds_count_from_the_taint() {
    let seconds = json!([{"key": "k", "operator": "Exists", "tolerationSeconds": 30}]);
    assert_eq!(
        stay(seconds.clone(), 10),
        RemainingTime::For(Duration::from_secs(30))
    );
    assert_eq!(
        stay(seconds.clone(), 39),
        RemainingTime::For(Duration::from_secs(1))
    );
    assert_eq!(stay(seconds, 40), RemainingTime::Over);
    assert_eq!(
        stay(json!([{"operator": "Exists"}]), 1_000),
        RemainingTime::Forever
    );
    let negative = json!([{"operator": "Exists", "tolerationSeconds": -1}]);
    assert_eq!(stay(negative, 10), RemainingTime::Over);
}

#[test]
fn only_no_execute_counts_and_keeps_its_time() {
    let taints = [taint("a", "NoSchedule"), taint("b", "NoExecute")];
    let first = no_execute_taints(&taints, &[], time(1));
    assert_eq!(first.len(), 1);
    assert_eq!(no_execute_taints(&taints, &first, time(9)), first);
}

#[test]
fn mirror_and_ending_pods_stay() {
    let taints = no_execute_taints(&[taint("k", "NoExecute")], &[], time(0));
    let mut mirror = pod(json!([]));
    mirror
        .metadata
        .annotations
        .insert(MIRROR_ANNOTATION.to_owned(), "x".to_owned());
    assert_eq!(remaining(&mirror, &taints, time(0)), RemainingTime::Forever);
    let mut completion = pod(json!([]));
    completion.metadata.deletion_timestamp = Some(time(0).to_string());
    assert_eq!(remaining(&completion, &taints, time(0)), RemainingTime::Forever);
}

#[test]
fn dropped_fields_decide_nothing() {
    let taints = no_execute_taints(&[taint("k", "NoExecute")], &[], time(10));
    let mut shared = Shared::default();
    let object = |mirror: bool| {
        let annotations = if mirror {
            json!({MIRROR_ANNOTATION: "u"})
        } else {
            json!({"a": "b"})
        };
        let seconds = json!([{"key": "k", "operator": "Exists", "tolerationSeconds": 30}]);
        json!({
            "metadata": {"name": "p", "creationTimestamp": time(0).to_string(), "annotations": annotations,
                "labels": {"app": "web"}, "finalizers": ["f"]},
            "spec": {"nodeName": "a", "tolerations": seconds},
            "status": {"phase": "Running"},
        })
    };
    for is_mirror in [false, true] {
        let full: EvictionPod = serde_json::from_value(object(is_mirror)).expect("a Pod");
        let mut kept = full.clone();
        kept.drop_unread_fields(&mut shared);
        assert_eq!(
            remaining(&kept, &taints, time(20)),
            remaining(&full, &taints, time(20))
        );
        assert!(kept.metadata.labels.is_empty() && kept.metadata.finalizers.is_empty());
        assert_eq!(kept.metadata.annotations.is_empty(), !is_mirror);
    }
}
