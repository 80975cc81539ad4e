//! Fields of statuses that upstream serializes always: counts of zero, and unknown times of conditions.

use serde_json::{Value, json};

use crate::machinery::tree::{is_set, items_mut, object_mut, set};

/// Counts of a ReplicaSet or ReplicationController.
pub(super) const OF_REPLICA_SET: [&str; 1] = ["replicas"];
/// Counts of a StatefulSet.
pub(super) const OF_STATEFUL_SET: [&str; 2] = ["replicas", "availableReplicas"];
/// Counts of a DaemonSet.
pub(super) const OF_DAEMON_SET: [&str; 4] = [
    "currentNumberScheduled",
    "desiredNumberScheduled",
    "numberMisscheduled",
    "numberReady",
];

/// Sets the counts that are absent to zero.
pub(super) fn complete(object: &mut Value, counts: &[&str]) {
    object_mut(object, "status");
    let Some(status) = object.get_mut("status") else {
        return;
    };
    for count in counts {
        if !is_set(status, count) {
            set(status, count, 0);
        }
    }
}

/// Sets the times that are absent in the conditions of an object to null.
pub(crate) fn complete_conditions(object: &mut Value, times: &[&str]) {
    let Some(status) = object.get_mut("status") else {
        return;
    };
    for condition in items_mut(status, "conditions") {
        for time in times {
            if condition.is_object() && !is_set(condition, time) {
                set(condition, time, Value::Null);
            }
        }
    }
}

/// Replaces the status of a new object by an empty one with these counts.
pub(super) fn reset(object: &mut Value, counts: &[&str]) {
    set(object, "status", json!({}));
    complete(object, counts);
}
