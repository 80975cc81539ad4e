//! Conversion between the two forms of an Event.

use serde_json::{Map, Value};

use crate::machinery::tree::{omit_zero, set};

/// API group of the form that is not stored.
pub const GROUP: &str = "events.k8s.io";

const CORE_VERSION: &str = "v1";
const VERSION: &str = "events.k8s.io/v1";

/// Fields with different names in the core group and in `events.k8s.io`.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Converts an Event of `events.k8s.io` to the form of the core group.
pub fn into_core(event: Value) -> Value {
    with_renamed_fields(event, CORE_VERSION, |name| {
        NAMES.iter().find(|(_, new)| *new == name).map(|(core, _)| *core)
    })
}

/// Converts an Event of the core group to the form of `events.k8s.io`, which lacks an empty reporter.
pub fn of_core(event: Value) -> Value {
    let mut event = with_renamed_fields(event, VERSION, |name| {
        NAMES.iter().find(|(core, _)| *core == name).map(|(_, new)| *new)
    });
    omit_zero(&mut event, &["reportingController", "reportingInstance"]);
    event
}

/// Translates a field of a selector from `events.k8s.io` to the core group. `None` for fields that only the core group has.
pub(crate) fn core_selector(field: &str) -> Option<String> {
    match (field, field.strip_prefix("regarding.")) {
        (_, Some(rest)) => Some(format!("involvedObject.{rest}")),
        ("reportingController", None) => Some("reportingComponent".to_owned()),
        ("source" | "reportingComponent", None) => None,
        (other, None) if other.starts_with("involvedObject.") => None,
        (other, None) => Some(other.to_owned()),
    }
}

fn with_renamed_fields(event: Value, version: &str, name_of: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(fields) = event else {
        return event;
    };
    let fields: Map<String, Value> = fields
        .into_iter()
        .map(|(name, value)| match name_of(&name) {
            Some(other) => (other.to_owned(), value),
            None => (name, value),
        })
        .collect();
    let mut event = Value::Object(fields);
    set(&mut event, "apiVersion", version);
    event
}
