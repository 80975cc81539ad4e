//! Statuses of workloads as merge patches.

use api::object::{ObjectMeta, Resource};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Returns the merge patch from the stored status to the desired one; `None` if they agree. A `null` in `desired`
/// means an absent field; fields that `desired` lacks stay.
pub(crate) fn status_patch<W: Resource>(workload: &W, stored: &Value, desired: &Value) -> Option<Value> {
    let fields = desired.as_object()?;
    let is_current = |(field, value): (&String, &Value)| stored.get(field).unwrap_or(&Value::Null) == value;
    if fields.iter().all(is_current) {
        return None;
    }
    let ObjectMeta {
        uid,
        resource_version,
        ..
    } = workload.metadata();
    Some(json!({
        "metadata": {"uid": uid, "resourceVersion": resource_version},
        "status": desired,
    }))
}

/// Returns a count as the reference writes it: zero is absent.
pub(crate) fn count(number: usize) -> Value {
    if number == 0 { Value::Null } else { json!(number) }
}

/// Formats a timestamp as in objects.
pub(crate) fn timestamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
