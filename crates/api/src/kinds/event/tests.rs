use serde_json::{Value, json};

use super::*;
use crate::machinery::field::FieldErrors;

fn core() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "ns"},
        "involvedObject": {"kind": "Pod", "namespace": "ns", "name": "p"},
        "reason": "Started", "message": "it started", "action": "Start", "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingComponent": "example.com/one", "reportingInstance": "one-1",
    })
}

fn faults(errors: &FieldErrors) -> Vec<(&'static str, String)> {
    errors
        .iter()
        .map(|error| (error.reason.as_str(), error.path.as_str().to_owned()))
        .collect()
}

#[test]
fn conversion_round_trips() {
    let mut event = core();
    for (field, value) in [
        ("source", json!({"component": "c"})),
        ("firstTimestamp", json!("2026-01-01T00:00:00Z")),
        ("lastTimestamp", json!("2026-01-01T00:00:00Z")),
        ("count", json!(3)),
        ("series", json!({"count": 2})),
        ("related", json!({"kind": "Node"})),
    ] {
        event[field] = value;
    }
    let shown = of_core(event.clone());
    assert_eq!(shown["apiVersion"], "events.k8s.io/v1");
    assert_eq!(shown["regarding"], event["involvedObject"]);
    assert_eq!(shown["note"], "it started");
    assert_eq!(shown["reportingController"], "example.com/one");
    assert_eq!(shown["deprecatedCount"], 3);
    assert_eq!(shown["series"], event["series"]);
    assert_eq!(into_core(shown), event);
}

#[test]
fn accepts_a_valid_event_in_both_forms() {
    assert_eq!(faults(&validate_core_event(&core())), []);
    assert_eq!(faults(&validate_event(&core())), []);
}

#[test]
fn event_is_in_the_namespace_of_its_object() {
    let mut event = core();
    event["involvedObject"]["namespace"] = json!("other");
    assert_eq!(faults(&validate_core_event(&event)), []);
    event["eventTime"] = Value::Null;
    let expected = ("FieldValueInvalid", "involvedObject.namespace".to_owned());
    assert_eq!(
        faults(&validate_core_event(&event)),
        std::slice::from_ref(&expected)
    );
    event["involvedObject"] = json!({"kind": "Node", "name": "n"});
    assert_eq!(faults(&validate_core_event(&event)), [expected]);
    event["metadata"]["namespace"] = json!("default");
    assert_eq!(faults(&validate_core_event(&event)), []);
}

#[test]
fn new_form_rejects_deprecated_fields() {
    let mut event = core();
    for field in ["reportingComponent", "reportingInstance", "action", "reason"] {
        event[field] = json!("");
    }
    event["type"] = json!("Other");
    event["count"] = json!(1);
    event["source"] = json!({"host": "h"});
    event["series"] = json!({"count": 1});
    let found = faults(&validate_event(&event));
    for (reason, path) in [
        ("FieldValueRequired", "reportingController"),
        ("FieldValueRequired", "reportingInstance"),
        ("FieldValueRequired", "action"),
        ("FieldValueRequired", "reason"),
        ("FieldValueInvalid", "type"),
        ("FieldValueInvalid", "count"),
        ("FieldValueInvalid", "source"),
        ("FieldValueInvalid", "series.count"),
        ("FieldValueRequired", "series.lastObservedTime"),
    ] {
        assert!(
            found.contains(&(reason, path.to_owned())),
            "{reason} {path} is not in {found:?}"
        );
    }
}

#[test]
fn update_changes_the_series_only() {
    let old = core();
    let mut new = core();
    new["series"] = json!({"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"});
    assert_eq!(faults(&validate_event_update(&new, &old)), []);
    new["reason"] = json!("Other");
    let expected = ("FieldValueInvalid", "reason".to_owned());
    assert_eq!(
        faults(&validate_event_update(&new, &old)),
        [expected.clone(), expected]
    );
}
