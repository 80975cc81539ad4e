use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{CACHE_ENTRIES_MAX, Correlator, EventWrite, Occurrence};

fn occurrence(name: &str, message: &str) -> Occurrence {
    Occurrence {
        component: "c".to_owned(),
        involved: json!({"kind": "Service", "namespace": "n", "name": name}),
        namespace: "n".to_owned(),
        is_warning: true,
        reason: "Broken".to_owned(),
        message: message.to_owned(),
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

#[test]
fn repeated_event_increments_count() {
    let mut correlator = Correlator::default();
    let Some(EventWrite::Create(first)) = correlator.observe(&occurrence("s", "m"), at(1)) else {
        panic!("the first is new");
    };
    let Some(EventWrite::Patch { name, patch, create }) = correlator.observe(&occurrence("s", "m"), at(5))
    else {
        panic!("the second is the same");
    };
    assert_eq!(name, first["metadata"]["name"]);
    assert_eq!(
        (&patch["count"], &patch["lastTimestamp"]),
        (&json!(2), &json!("1970-01-01T00:00:05Z"))
    );
    assert_eq!(create["firstTimestamp"], "1970-01-01T00:00:01Z");
}

#[test]
fn similar_events_are_combined() {
    let mut correlator = Correlator::default();
    for number in 0..9 {
        let posting = correlator.observe(&occurrence("s", &format!("m{number}")), at(number));
        assert!(matches!(posting, Some(EventWrite::Create(_))), "{posting:?}");
    }
    let Some(EventWrite::Create(combined)) = correlator.observe(&occurrence("s", "m9"), at(10)) else {
        panic!("the first of the combined ones is new");
    };
    assert_eq!(combined["message"], "(combined from similar events): m9");
    let next = correlator.observe(&occurrence("s", "m10"), at(11));
    assert!(matches!(next, Some(EventWrite::Patch { .. })), "{next:?}");
    // Ten minutes without an Event begin a new count.
    let later = correlator.observe(&occurrence("s", "m11"), at(700));
    assert!(matches!(later, Some(EventWrite::Create(_))), "{later:?}");
}

#[test]
fn events_of_an_object_are_rate_limited() {
    let mut correlator = Correlator::default();
    let recorded = (0..100).filter(|_| correlator.observe(&occurrence("s", "m"), at(0)).is_some());
    assert_eq!(recorded.count(), 25);
    assert!(correlator.observe(&occurrence("other", "m"), at(0)).is_some());
    assert!(correlator.observe(&occurrence("s", "m"), at(301)).is_some());
    assert!(correlator.observe(&occurrence("s", "m"), at(301)).is_none());
}

#[test]
fn correlator_memory_is_bounded() {
    let mut correlator = Correlator::default();
    for number in 0..CACHE_ENTRIES_MAX + 10 {
        correlator.observe(&occurrence(&format!("s{number}"), "m"), at(0));
    }
    assert_eq!(correlator.written.entries.len(), CACHE_ENTRIES_MAX);
    assert!(matches!(
        correlator.observe(&occurrence("s0", "m"), at(1)),
        Some(EventWrite::Create(_))
    ));
}

#[test]
fn event_names_the_host_of_its_component() {
    let mut correlator = Correlator::of_host("node-1");
    let Some(EventWrite::Create(event)) = correlator.observe(&occurrence("s", "m"), at(0)) else {
        panic!("the first is new");
    };
    assert_eq!(event["source"], json!({"component": "c", "host": "node-1"}));
    assert_eq!(event["reportingInstance"], "node-1");
}
