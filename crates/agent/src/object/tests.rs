use std::time::Instant;

use serde_json::json;

use super::*;

fn pod(metadata: Value, spec: Value) -> Pod {
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

#[test]
fn grace_of_a_deletion_takes_precedence() {
    let spec = json!({"terminationGracePeriodSeconds": 60});
    let deleted = pod(json!({"deletionGracePeriodSeconds": 5}), spec.clone());
    assert_eq!(deleted.grace(), Duration::from_secs(5));
    assert_eq!(deleted.spec.termination_grace(), Duration::from_secs(60));
    assert_eq!(pod(json!({}), spec).grace(), Duration::from_secs(60));
    assert_eq!(pod(json!({}), json!({})).grace(), Duration::from_secs(30));
    let negative = json!({"terminationGracePeriodSeconds": -1});
    assert_eq!(pod(json!({}), negative).grace(), Duration::ZERO);
}

#[test]
fn every_grace_can_be_added_to_the_present_time() {
    let spec = json!({"terminationGracePeriodSeconds": i64::MAX});
    let deleted = pod(json!({"deletionGracePeriodSeconds": i64::MAX}), spec);
    for grace in [
        deleted.grace(),
        deleted.spec.termination_grace(),
        bounded_grace(u64::MAX),
    ] {
        assert!(Instant::now().checked_add(grace).is_some());
        assert_eq!(grace, GRACE_MAX);
    }
}
