//! The status of a StatefulSet.

use api::object::{ControllerRevision, StatefulSet};
use api::tree::text;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::pods::{is_running, revision_of};
use crate::replica_set::ReplicaPod;
use crate::workload::count;
use crate::workload::pods::is_available;

/// Returns the name of the revision that the StatefulSet had before a rollout.
pub(super) fn current_revision<'a>(set: &'a StatefulSet, update: &'a ControllerRevision) -> &'a str {
    match text(&set.status, "currentRevision") {
        "" => &update.metadata.name,
        name => name,
    }
}

/// Computes the status from the Pods that the StatefulSet owns.
pub(super) fn status_of(
    set: &StatefulSet,
    pods: &[&ReplicaPod],
    update: &ControllerRevision,
    now: Timestamp,
) -> Value {
    let number = |is_counted: &dyn Fn(&ReplicaPod) -> bool| pods.iter().filter(|pod| is_counted(pod)).count();
    let is_live = |pod: &ReplicaPod| pod.metadata.deletion_timestamp.is_none();
    let pods_at_revision = |name: &str| number(&|pod| is_live(pod) && revision_of(pod) == name);
    let ready = number(&is_running);
    let updated = pods_at_revision(&update.metadata.name);
    let mut current = current_revision(set, update);
    let desired = usize::try_from(set.spec.replicas).unwrap_or(0);
    let is_rolled_out = [updated, ready, pods.len()]
        .iter()
        .all(|counted| *counted == desired);
    if set.spec.update_strategy.kind == "RollingUpdate" && is_rolled_out {
        current = &update.metadata.name;
    }
    let available = number(&|pod| is_running(pod) && is_available(pod, set.spec.min_ready_seconds, now));
    json!({
        "observedGeneration": set.metadata.generation,
        "replicas": pods.len(),
        "readyReplicas": count(ready),
        "availableReplicas": available,
        "currentReplicas": count(pods_at_revision(current)),
        "updatedReplicas": count(updated),
        "currentRevision": current,
        "updateRevision": update.metadata.name,
        "collisionCount": 0,
    })
}
