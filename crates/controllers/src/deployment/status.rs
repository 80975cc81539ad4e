//! The status of a Deployment: counts, and the progress of its rollout.

use std::time::Duration;

use api::object::{Deployment, DeploymentStatus, ProgressCondition, ReplicaSet};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::revisions::revision_of;
use super::rollout::Rollout;
use super::{REVISION, UNLIMITED};

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const REPLICA_FAILURE: &str = "ReplicaFailure";
/// Reason of a complete rollout.
const DONE: &str = "NewReplicaSetAvailable";
/// Reason of a rollout that exceeded its deadline.
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

/// The parts of the status to update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusDetail {
    /// Numbers of Pods only: no rollout is in progress.
    Counts,
    /// Numbers of Pods and the progress of the rollout.
    Progress,
}

/// The desired status and revision of a Deployment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StatusUpdate {
    /// Complete status.
    pub status: DeploymentStatus,
    /// Revision of the newest template, if its ReplicaSet exists.
    pub revision: Option<i64>,
}

impl StatusUpdate {
    /// Returns true if the Deployment has another status or revision.
    pub(super) fn differs_from(&self, deployment: &Deployment) -> bool {
        let revision = self.revision.map(|revision| revision.to_string());
        let is_renumbered =
            revision.is_some() && deployment.metadata.annotations.get(REVISION) != revision.as_ref();
        self.status != deployment.status || is_renumbered
    }

    /// Returns the delay until the progress deadline has to be checked.
    pub(super) fn deadline_after(&self, deployment: &Deployment, now: Timestamp) -> Option<Duration> {
        let deadline = deadline(deployment)?;
        let progressing = condition(&self.status.conditions, PROGRESSING)?;
        let is_over = matches!(&*progressing.reason, DONE | TIMED_OUT | PAUSED);
        if is_over || deployment.spec.paused {
            return None;
        }
        let left = deadline - time_since(progressing, now);
        // Timestamps have whole seconds, so wait one second longer.
        let wait = left.max(SignedDuration::ZERO) + SignedDuration::from_secs(1);
        Duration::try_from(wait).ok()
    }

    /// Returns the merge patch from the Deployment as it was read.
    pub(super) fn patch(&self, deployment: &Deployment) -> Value {
        // Zero and empty values are omitted, as the reference writes them.
        let count = |number: i64| if number == 0 { Value::Null } else { number.into() };
        let status = &self.status;
        let conditions = if status.conditions.is_empty() {
            Value::Null
        } else {
            json!(status.conditions)
        };
        let mut metadata = json!({
            "uid": deployment.metadata.uid,
            "resourceVersion": deployment.metadata.resource_version,
        });
        if let Some(revision) = self.revision {
            metadata["annotations"] = json!({REVISION: revision.to_string()});
        }
        json!({
            "metadata": metadata,
            "status": {
                "observedGeneration": count(status.observed_generation),
                "replicas": count(status.replicas),
                "updatedReplicas": count(status.updated_replicas),
                "readyReplicas": count(status.ready_replicas),
                "availableReplicas": count(status.available_replicas),
                "unavailableReplicas": count(status.unavailable_replicas),
                "terminatingReplicas": status.terminating_replicas,
                "collisionCount": status.collision_count,
                "conditions": conditions,
            },
        })
    }
}

/// Computes the status of a Deployment.
pub(super) fn status_update(rollout: &Rollout<'_>, detail: StatusDetail, now: Timestamp) -> StatusUpdate {
    let deployment = rollout.deployment;
    let mut status = count_replicas(rollout, now);
    record_pause(&mut status.conditions, deployment, now);
    if detail == StatusDetail::Progress {
        record_progress(&mut status, rollout, now);
        record_failures(&mut status.conditions, rollout);
    } else if rollout.newest.is_some() {
        record_existing(&mut status.conditions, rollout, now);
    }
    StatusUpdate {
        status,
        revision: rollout.newest.map(revision_of).filter(|revision| *revision > 0),
    }
}

/// Computes the status after the creation of a ReplicaSet, or after its failure.
pub(super) fn status_after_creation(
    deployment: &Deployment,
    revision: Option<i64>,
    name: &str,
    error: Option<&str>,
    now: Timestamp,
) -> StatusUpdate {
    let mut status = deployment.status.clone();
    let (is_true, reason, message) = match error {
        None => (
            true,
            "NewReplicaSetCreated",
            format!("Created new replica set \"{name}\""),
        ),
        Some(error) => (false, "ReplicaSetCreateError", error.to_owned()),
    };
    if deadline(deployment).is_some() {
        let status_text = if is_true { "True" } else { "False" };
        set_condition(
            &mut status.conditions,
            new(PROGRESSING, status_text, reason, message, now),
        );
    }
    StatusUpdate { status, revision }
}

fn count_replicas(rollout: &Rollout<'_>, now: Timestamp) -> DeploymentStatus {
    let deployment = rollout.deployment;
    let sum = |count: fn(&ReplicaSet) -> i64| rollout.all().map(count).sum::<i64>();
    let available = sum(|set| set.status.available_replicas);
    let terminating = rollout.all().filter_map(|set| set.status.terminating_replicas);
    let mut conditions = deployment.status.conditions.clone();
    let condition = if available >= rollout.bounds.available_min() {
        (
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else {
        (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    let (status_text, reason, message) = condition;
    set_condition(
        &mut conditions,
        new(AVAILABLE, status_text, reason, message.to_owned(), now),
    );
    DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: sum(|set| set.status.replicas),
        updated_replicas: rollout.newest.map_or(0, |set| set.status.replicas),
        ready_replicas: sum(|set| set.status.ready_replicas),
        available_replicas: available,
        unavailable_replicas: (sum(|set| set.spec.replicas) - available).max(0),
        terminating_replicas: terminating.reduce(|a, b| a + b),
        collision_count: deployment.status.collision_count,
        conditions,
    }
}

fn record_pause(conditions: &mut Vec<ProgressCondition>, deployment: &Deployment, now: Timestamp) {
    let reason = condition(conditions, PROGRESSING).map(|condition| condition.reason.clone());
    let reason = reason.unwrap_or_default();
    if deadline(deployment).is_none() || reason == TIMED_OUT {
        return;
    }
    if deployment.spec.paused && reason != PAUSED {
        let message = "Deployment is paused".to_owned();
        set_condition(conditions, new(PROGRESSING, "Unknown", PAUSED, message, now));
    } else if !deployment.spec.paused && reason == PAUSED {
        let message = "Deployment is resumed".to_owned();
        set_condition(
            conditions,
            new(PROGRESSING, "Unknown", "DeploymentResumed", message, now),
        );
    }
}

/// Sets the condition Progressing for a ReplicaSet that existed before the first sync.
fn record_existing(conditions: &mut Vec<ProgressCondition>, rollout: &Rollout<'_>, now: Timestamp) {
    let is_new = deadline(rollout.deployment).is_some() && condition(conditions, PROGRESSING).is_none();
    if let Some(newest) = rollout.newest.filter(|_| is_new) {
        let message = format!("Found new replica set \"{}\"", newest.metadata.name);
        set_condition(
            conditions,
            new(PROGRESSING, "True", "FoundNewReplicaSet", message, now),
        );
    }
}

/// Sets the condition Progressing by the state of the rollout and its deadline.
fn record_progress(status: &mut DeploymentStatus, rollout: &Rollout<'_>, now: Timestamp) {
    let deployment = rollout.deployment;
    let Some(deadline) = deadline(deployment) else {
        status
            .conditions
            .retain(|condition| condition.kind != PROGRESSING);
        return;
    };
    record_existing(&mut status.conditions, rollout, now);
    let before = condition(&status.conditions, PROGRESSING).cloned();
    let is_done = before.as_ref().is_some_and(|before| before.reason == DONE);
    if is_done && status.replicas == status.updated_replicas {
        return;
    }
    let subject = match rollout.newest {
        Some(newest) => format!("ReplicaSet \"{}\"", newest.metadata.name),
        None => format!("Deployment \"{}\"", deployment.metadata.name),
    };
    if is_complete(status, rollout) {
        let message = format!("{subject} has successfully progressed.");
        set_condition(
            &mut status.conditions,
            new(PROGRESSING, "True", DONE, message, now),
        );
    } else if has_moved(&deployment.status, status) {
        let message = format!("{subject} is progressing.");
        let mut condition = new(PROGRESSING, "True", "ReplicaSetUpdated", message, now);
        // Progress restarts the deadline, so the time is written even if nothing else changes.
        if let Some(before) = before.filter(|before| before.status == "True") {
            condition.last_transition_time = before.last_transition_time;
        }
        status
            .conditions
            .retain(|condition| condition.kind != PROGRESSING);
        status.conditions.push(condition);
    } else if let Some(before) = before
        && !is_done
        && (before.reason == TIMED_OUT || time_since(&before, now) > deadline)
    {
        let message = format!("{subject} has timed out progressing.");
        set_condition(
            &mut status.conditions,
            new(PROGRESSING, "False", TIMED_OUT, message, now),
        );
    }
}

fn is_complete(status: &DeploymentStatus, rollout: &Rollout<'_>) -> bool {
    let desired = rollout.bounds.desired;
    status.updated_replicas == desired && status.replicas == desired && status.available_replicas == desired
}

/// Returns true if there are more new or fewer old Pods than before.
fn has_moved(before: &DeploymentStatus, now: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| status.replicas - status.updated_replicas;
    now.updated_replicas > before.updated_replicas
        || old(now) < old(before)
        || now.ready_replicas > before.ready_replicas
        || now.available_replicas > before.available_replicas
}

/// Copies the ReplicaFailure condition of the newest ReplicaSet that has one.
fn record_failures(conditions: &mut Vec<ProgressCondition>, rollout: &Rollout<'_>) {
    let failure = |set: &ReplicaSet| condition(&set.status.conditions, REPLICA_FAILURE).cloned();
    let found = rollout
        .newest
        .and_then(failure)
        .or_else(|| rollout.old.iter().find_map(|set| failure(set)));
    match found {
        Some(failure) => set_condition(
            conditions,
            ProgressCondition {
                last_update_time: failure.last_transition_time.clone(),
                ..failure
            },
        ),
        None => conditions.retain(|condition| condition.kind != REPLICA_FAILURE),
    }
}

/// Returns the progress deadline; `None` if it is unlimited.
fn deadline(deployment: &Deployment) -> Option<SignedDuration> {
    let seconds = deployment.spec.progress_deadline_seconds?;
    (seconds != UNLIMITED).then(|| SignedDuration::from_secs(seconds))
}

/// Returns the age of a condition's last update.
fn time_since(condition: &ProgressCondition, now: Timestamp) -> SignedDuration {
    let time = condition
        .last_update_time
        .as_deref()
        .and_then(|time| time.parse::<Timestamp>().ok());
    time.map_or(SignedDuration::ZERO, |time| now.duration_since(time))
}

fn condition<'c>(conditions: &'c [ProgressCondition], kind: &str) -> Option<&'c ProgressCondition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

fn new(kind: &str, status: &str, reason: &str, message: String, now: Timestamp) -> ProgressCondition {
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    ProgressCondition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        last_update_time: Some(now.clone()),
        last_transition_time: Some(now),
        reason: reason.to_owned(),
        message,
    }
}

/// Sets a condition, unless status and reason are the same. The transition time changes only with the status.
fn set_condition(conditions: &mut Vec<ProgressCondition>, mut desired: ProgressCondition) {
    if let Some(known) = condition(conditions, &desired.kind) {
        if known.status == desired.status && known.reason == desired.reason {
            return;
        }
        if known.status == desired.status {
            desired.last_transition_time = known.last_transition_time.clone();
        }
    }
    conditions.retain(|condition| condition.kind != desired.kind);
    conditions.push(desired);
}
