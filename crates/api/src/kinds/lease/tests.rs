use serde_json::json;

use super::*;

fn causes(spec: Value) -> Vec<String> {
    let lease = json!({"metadata": {"name": "l", "namespace": "n"}, "spec": spec});
    validate(&lease)
        .iter()
        .map(|error| format!("{} {}", error.reason.as_str(), error.path))
        .collect()
}

#[test]
fn durations_are_positive_and_transitions_not_negative() {
    assert!(causes(json!({"leaseDurationSeconds": 1, "leaseTransitions": 0})).is_empty());
    assert!(causes(json!({})).is_empty());
    assert_eq!(
        causes(json!({"leaseDurationSeconds": 0, "leaseTransitions": -1})),
        [
            "FieldValueInvalid spec.leaseDurationSeconds",
            "FieldValueInvalid spec.leaseTransitions"
        ]
    );
}

#[test]
fn fields_of_coordinated_election_are_dropped() {
    let mut lease = json!({"spec": {"strategy": "S", "preferredHolder": "p", "holderIdentity": "h"}});
    default_on_write(&mut lease);
    assert_eq!(lease, json!({"spec": {"holderIdentity": "h"}}));
    let mut empty = json!({});
    default_on_write(&mut empty);
    assert_eq!(empty, json!({"spec": {}}));
}
