//! The status of a ReplicaSet.

use api::object::{ObjectMeta, ProgressCondition, ReplicaSet, ReplicaSetStatus};
use api::tree::{child, entries};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::pod::ReplicaPod;

/// Type of the condition for failed creations and deletions.
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The failure of a creation or deletion.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Failure {
    /// `FailedCreate` or `FailedDelete`.
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Computes the status from the Pods.
pub(super) fn status_of(
    set: &ReplicaSet,
    pods: &[&ReplicaPod],
    failure: Option<&Failure>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let template = child(child(&set.spec.template, "metadata"), "labels").clone();
    let template = json!({ "labels": template });
    let has_labels = |meta: &ObjectMeta| {
        entries(&template, "labels")
            .all(|(key, value)| meta.labels.get(key).is_some_and(|label| label == value))
    };
    let is_available = |pod: &ReplicaPod| {
        let left = pod.available_in(set.spec.min_ready_seconds, now);
        left.is_some_and(|left| left.is_zero())
    };
    let active = || pods.iter().filter(|pod| pod.is_active());
    let count = |pods: usize| i64::try_from(pods).unwrap_or(i64::MAX);
    ReplicaSetStatus {
        observed_generation: set.metadata.generation,
        replicas: count(active().count()),
        fully_labeled_replicas: count(active().filter(|pod| has_labels(&pod.metadata)).count()),
        ready_replicas: count(active().filter(|pod| pod.is_ready()).count()),
        available_replicas: count(active().filter(|pod| is_available(pod)).count()),
        terminating_replicas: Some(count(pods.iter().filter(|pod| pod.is_terminating()).count())),
        conditions: conditions(&set.status.conditions, failure, now),
    }
}

fn conditions(
    before: &[ProgressCondition],
    failure: Option<&Failure>,
    now: Timestamp,
) -> Vec<ProgressCondition> {
    let mut conditions = before.to_vec();
    let Some(failure) = failure else {
        conditions.retain(|condition| condition.kind != REPLICA_FAILURE);
        return conditions;
    };
    let is_reported = |condition: &ProgressCondition| {
        condition.kind == REPLICA_FAILURE && condition.status == "True" && condition.reason == failure.reason
    };
    if conditions.iter().any(is_reported) {
        return conditions;
    }
    conditions.retain(|condition| condition.kind != REPLICA_FAILURE);
    conditions.push(ProgressCondition {
        kind: REPLICA_FAILURE.to_owned(),
        status: "True".to_owned(),
        last_update_time: None,
        last_transition_time: Some(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        reason: failure.reason.to_owned(),
        message: failure.message.clone(),
    });
    conditions
}

/// Returns the merge patch of the status for the ReplicaSet as it was read.
pub(super) fn status_patch(set: &ReplicaSet, status: &ReplicaSetStatus) -> Value {
    // Zero and empty values are omitted, as the reference writes them.
    let count = |number: i64| if number == 0 { Value::Null } else { number.into() };
    let conditions = if status.conditions.is_empty() {
        Value::Null
    } else {
        json!(status.conditions)
    };
    json!({
        "metadata": {"uid": set.metadata.uid, "resourceVersion": set.metadata.resource_version},
        "status": {
            "observedGeneration": count(status.observed_generation),
            "replicas": status.replicas,
            "fullyLabeledReplicas": count(status.fully_labeled_replicas),
            "readyReplicas": count(status.ready_replicas),
            "availableReplicas": count(status.available_replicas),
            "terminatingReplicas": status.terminating_replicas,
            "conditions": conditions,
        },
    })
}
