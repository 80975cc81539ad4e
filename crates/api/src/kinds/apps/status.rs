//! Fields of statuses that upstream serializes always, such as counts of zero, and those that it omits if they are empty.

use serde_json::{Value, json};

use crate::machinery::tree::{is_set, object_mut, omit_zero, set};

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

/// Fields that upstream omits if they are empty.
const OMITTED_IF_EMPTY: [&str; 17] = [
    "observedGeneration",
    "replicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "updatedReplicas",
    "currentReplicas",
    "fullyLabeledReplicas",
    "currentRevision",
    "updateRevision",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "active",
    "succeeded",
    "failed",
    "completedIndexes",
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

/// Drops the empty fields of a status. A kind sets those again that it always has.
pub(super) fn omit_empty(object: &mut Value) {
    if let Some(status) = object.get_mut("status") {
        omit_zero(status, &OMITTED_IF_EMPTY);
    }
}

/// Replaces the status of a new object by an empty one with these counts.
pub(super) fn reset(object: &mut Value, counts: &[&str]) {
    set(object, "status", json!({}));
    complete(object, counts);
}
