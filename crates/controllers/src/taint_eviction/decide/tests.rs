use serde_json::{Value, json};

use super::*;
use crate::taint_eviction::cached_pod::SharedValues;

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).expect("a time")
}

fn pod(tolerations: Value) -> CachedPod {
    let metadata = json!({"name": "p", "creationTimestamp": time(0).to_string()});
    let pod = json!({"metadata": metadata, "spec": {"nodeName": "a", "tolerations": tolerations}});
    let pod = serde_json::from_value(pod).expect("a Pod");
    CachedPod::of(pod, &mut SharedValues::default())
}

fn taint(key: &str, effect: &str) -> Taint {
    serde_json::from_value(json!({"key": key, "effect": effect})).expect("a taint")
}

fn stay(tolerations: Value, second: i64) -> RemainingTime {
    let taints = no_execute_taints(&[taint("k", "NoExecute")], &[], time(10));
    time_remaining(&pod(tolerations), &taints, time(second))
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
fn pods_that_are_not_evictable_stay() {
    let taints = no_execute_taints(&[taint("k", "NoExecute")], &[], time(0));
    let mut ending = pod(json!([]));
    assert_eq!(time_remaining(&ending, &taints, time(0)), RemainingTime::Over);
    ending.is_evictable = false;
    assert_eq!(time_remaining(&ending, &taints, time(0)), RemainingTime::Forever);
}

#[test]
fn toleration_seconds_count_from_the_creation_of_later_pods() {
    let taints = no_execute_taints(&[taint("k", "NoExecute")], &[], time(10));
    let mut late = pod(json!([{"operator": "Exists", "tolerationSeconds": 30}]));
    late.created = crate::caches::Time::of(time(20));
    assert_eq!(
        time_remaining(&late, &taints, time(20)),
        RemainingTime::For(Duration::from_secs(30))
    );
}
