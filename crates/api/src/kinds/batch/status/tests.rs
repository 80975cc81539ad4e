use serde_json::{Value, json};

use super::*;

const START: &str = "2026-01-01T00:00:00Z";
const LATER: &str = "2026-01-01T00:01:00Z";

fn job(spec: Value, status: Value) -> Value {
    json!({
        "metadata": {"name": "count", "namespace": "default", "uid": "u1", "resourceVersion": "1"},
        "spec": spec,
        "status": status,
    })
}

/// Returns the faults of a change of the status without those of the metadata.
fn faults_of(spec: &Value, old: &Value, new: &Value) -> Vec<String> {
    let (new, old) = (job(spec.clone(), new.clone()), job(spec.clone(), old.clone()));
    let errors = validate_job_status_update(&new, &old);
    errors.iter().map(ToString::to_string).collect()
}

fn conditions(kinds: &[&str]) -> Value {
    let conditions = kinds.iter().map(|kind| json!({"type": kind, "status": "True"}));
    Value::Array(conditions.collect())
}

/// Returns a status with these conditions and more fields.
fn with(kinds: &[&str], fields: Value) -> Value {
    let mut status = json!({"conditions": conditions(kinds)});
    for (field, value) in fields.as_object().expect("fields") {
        status[field] = value.clone();
    }
    status
}

fn complete() -> Value {
    with(
        &["SuccessCriteriaMet", "Complete"],
        json!({"startTime": START, "completionTime": LATER, "succeeded": 1}),
    )
}

#[test]
fn accepts_the_statuses_of_a_job_that_succeeds_or_fails() {
    let spec = json!({"completionMode": "NonIndexed", "completions": 1, "parallelism": 1});
    let running = json!({"startTime": START, "active": 1, "ready": 1});
    let failed = with(
        &["FailureTarget", "Failed"],
        json!({"startTime": START, "failed": 2}),
    );
    for (old, new) in [
        (json!({}), running.clone()),
        (running.clone(), complete()),
        (running, failed.clone()),
        (failed.clone(), failed),
    ] {
        assert_eq!(faults_of(&spec, &old, &new), Vec::<String>::new());
    }
}

// The messages are those of kube-apiserver 1.36.2.
#[test]
fn rejects_inconsistent_ends() {
    let spec = json!({"completionMode": "NonIndexed"});
    let running = json!({"startTime": START, "active": 1});
    let omitted = |fields: &[&str]| {
        let mut status = complete();
        let map = status.as_object_mut().expect("object");
        fields.iter().for_each(|field| {
            map.remove(*field);
        });
        status
    };
    let added = |field: &str, value: Value| {
        let mut status = complete();
        status[field] = value;
        status
    };
    let cases = [
        (
            omitted(&["completionTime"]),
            "status.completionTime: Required value: completionTime is required for Complete jobs",
        ),
        (
            omitted(&["startTime", "completionTime"]),
            "status.completionTime: Required value: completionTime is required for Complete jobs",
        ),
        (
            added("completionTime", json!("2025-01-01T00:00:00Z")),
            "status.completionTime: Invalid value: \"2025-01-01T00:00:00Z\": must be equal to or after `startTime`",
        ),
        (
            added("active", json!(1)),
            "status.active: Invalid value: 1: active>0 is invalid for finished job",
        ),
        (
            added("terminating", json!(1)),
            "status.terminating: Invalid value: 1: terminating>0 is invalid for finished job",
        ),
        (
            added("uncountedTerminatedPods", json!({"failed": ["a"]})),
            "status.uncountedTerminatedPods: Invalid value: {\"failed\":[\"a\"]}: must be empty for finished job",
        ),
        (
            added("conditions", conditions(&["Complete"])),
            "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true \
             condition",
        ),
        (
            with(&["Failed"], json!({"startTime": START})),
            "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
        ),
        (
            json!({"startTime": START, "completionTime": LATER}),
            "status.completionTime: Invalid value: \"2026-01-01T00:01:00Z\": cannot set completionTime when there is no \
             Complete=True condition",
        ),
        (
            json!({"startTime": START, "active": 1, "ready": 2}),
            "status.ready: Invalid value: 2: cannot set more ready pods than active",
        ),
    ];
    for (new, expected) in cases {
        let faults = faults_of(&spec, &running, &new);
        assert_eq!(faults.first().map(String::as_str), Some(expected), "{faults:?}");
    }
}

#[test]
fn ends_are_final_and_counts_do_not_decrease() {
    let spec = json!({"completionMode": "NonIndexed", "completions": 1, "parallelism": 1});
    let cases = [
        (
            json!({"failed": 2}),
            json!({"failed": 1}),
            "status.failed: Invalid value: 1: cannot decrease the failed counter",
        ),
        (
            json!({"succeeded": 2}),
            json!({}),
            "status.succeeded: Invalid value: 0: cannot decrease the succeeded counter",
        ),
        (
            with(&["FailureTarget"], json!({})),
            json!({}),
            "status.conditions: Invalid value: cannot disable the terminal FailureTarget=True condition",
        ),
        (
            with(&["SuccessCriteriaMet"], json!({})),
            json!({}),
            "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
        ),
        (
            json!({"startTime": START}),
            json!({"startTime": LATER}),
            "status.startTime: Invalid value: \"2026-01-01T00:01:00Z\": field is immutable for unsuspended job once set",
        ),
        (
            complete(),
            with(
                &["SuccessCriteriaMet", "Complete"],
                json!({"startTime": START, "completionTime": "2026-01-01T00:02:00Z", "succeeded": 1}),
            ),
            "status.completionTime: Invalid value: \"2026-01-01T00:02:00Z\": field is immutable",
        ),
    ];
    for (old, new, expected) in cases {
        assert_eq!(faults_of(&spec, &old, &new), [expected]);
    }
    let suspended = json!({"suspend": true});
    assert_eq!(
        faults_of(&suspended, &json!({"startTime": START}), &json!({})),
        Vec::<String>::new()
    );
    let elastic = json!({"completionMode": "Indexed", "completions": 1, "parallelism": 1});
    assert_eq!(
        faults_of(&elastic, &json!({"succeeded": 2}), &json!({"succeeded": 1})),
        Vec::<String>::new()
    );
}

#[test]
fn indexes_have_the_form_of_intervals_below_the_completions() {
    let indexed = json!({"completionMode": "Indexed", "completions": 5, "parallelism": 1});
    let plain = json!({"completionMode": "NonIndexed", "completions": 5});
    let cases = [
        (&indexed, json!({"completedIndexes": "0,2-4"}), vec![]),
        (
            &indexed,
            json!({"completedIndexes": "2,1"}),
            vec![
                "status.completedIndexes: Invalid value: \"2,1\": error parsing completedIndexes: non-increasing order, \
                 previous: 2, current: 1",
            ],
        ),
        (
            &plain,
            json!({"completedIndexes": "1"}),
            vec![
                "status.completedIndexes: Invalid value: \"1\": cannot set non-empty completedIndexes when non-indexed \
                 completion mode",
            ],
        ),
        (
            &indexed,
            json!({"completedIndexes": "0,2-4", "failedIndexes": "1,3"}),
            vec![
                "status.failedIndexes: Invalid value: \"1,3\": cannot set non-null failedIndexes when \
                 backoffLimitPerIndex is null",
                "status.failedIndexes: Invalid value: \"1,3\": failedIndexes and completedIndexes overlap at index: 3",
            ],
        ),
    ];
    for (spec, new, expected) in cases {
        assert_eq!(faults_of(spec, &json!({}), &new), expected);
        // An unchanged status stays valid after a change of the spec.
        assert_eq!(faults_of(spec, &new, &new), Vec::<String>::new());
    }
}

#[test]
fn uids_of_uncounted_pods_are_unique() {
    let uncounted = json!({"uncountedTerminatedPods": {"succeeded": ["a", ""], "failed": ["a"]}});
    assert_eq!(
        faults_of(&json!({}), &json!({}), &uncounted),
        [
            "status.uncountedTerminatedPods.succeeded[1]: Invalid value: \"\": must not be empty",
            "status.uncountedTerminatedPods.failed[0]: Duplicate value: \"a\"",
        ]
    );
}
