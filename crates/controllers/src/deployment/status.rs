//! What is said about a Deployment: counts, and how its roll-out goes.

use std::time::Duration;

use api::object::{Deployment, DeploymentStatus, ProgressCondition, ReplicaSet};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::reconcile::Scene;
use super::revisions::revision_of;
use super::{REVISION, UNLIMITED};

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const REPLICA_FAILURE: &str = "ReplicaFailure";
/// The reason of a roll-out that is done.
const DONE: &str = "NewReplicaSetAvailable";
/// The reason of one that takes too long.
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

/// How much is to be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// How many Pods there are: nothing is rolled out.
    Counts,
    /// And how the roll-out goes.
    RollOut,
}

/// What a Deployment has to say.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// Its status.
    pub status: DeploymentStatus,
    /// The number of its newest template, if there is a ReplicaSet of it.
    pub revision: Option<i64>,
}

impl Said {
    /// Whether the Deployment says something else.
    pub(super) fn is_news(&self, deployment: &Deployment) -> bool {
        let revision = self.revision.map(|revision| revision.to_string());
        let is_renumbered =
            revision.is_some() && deployment.metadata.annotations.get(REVISION) != revision.as_ref();
        self.status != deployment.status || is_renumbered
    }

    /// When it has to be looked at again whether the roll-out takes too long.
    pub(super) fn deadline_in(&self, deployment: &Deployment, now: Timestamp) -> Option<Duration> {
        let deadline = deadline(deployment)?;
        let progressing = condition(&self.status.conditions, PROGRESSING)?;
        let is_over = matches!(&*progressing.reason, DONE | TIMED_OUT | PAUSED);
        if is_over || deployment.spec.paused {
            return None;
        }
        let left = deadline - time_since(progressing, now);
        // A second more, as times are said in whole seconds.
        let wait = left.max(SignedDuration::ZERO) + SignedDuration::from_secs(1);
        Duration::try_from(wait).ok()
    }

    /// The merge patch that makes the Deployment, as it was read, say this.
    pub(super) fn patch(&self, deployment: &Deployment) -> Value {
        // What is zero or empty is left out, as the reference writes it.
        let count = |number: i64| if number == 0 { Value::Null } else { number.into() };
        let status = &self.status;
        let conditions = match status.conditions.is_empty() {
            true => Value::Null,
            false => json!(status.conditions),
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

/// What a Deployment has to say.
pub(super) fn said(scene: &Scene<'_>, depth: Depth, now: Timestamp) -> Said {
    let deployment = scene.deployment;
    let mut status = counted(scene, now);
    note_pause(&mut status.conditions, deployment, now);
    if depth == Depth::RollOut {
        note_progress(&mut status, scene, now);
        note_failures(&mut status.conditions, scene);
    } else if scene.newest.is_some() {
        note_found(&mut status.conditions, scene, now);
    }
    Said {
        status,
        revision: scene.newest.map(revision_of).filter(|revision| *revision > 0),
    }
}

/// What a Deployment says right after its ReplicaSet was made, or could not be.
pub(super) fn said_of_creation(
    deployment: &Deployment,
    revision: Option<i64>,
    name: &str,
    error: Option<&str>,
    now: Timestamp,
) -> Said {
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
        let word = if is_true { "True" } else { "False" };
        set(
            &mut status.conditions,
            new(PROGRESSING, word, reason, message, now),
        );
    }
    Said { status, revision }
}

fn counted(scene: &Scene<'_>, now: Timestamp) -> DeploymentStatus {
    let deployment = scene.deployment;
    let sum = |count: fn(&ReplicaSet) -> i64| scene.all().map(count).sum::<i64>();
    let available = sum(|set| set.status.available_replicas);
    let terminating = scene.all().filter_map(|set| set.status.terminating_replicas);
    let mut conditions = deployment.status.conditions.clone();
    let condition = match available >= scene.bounds.available_min() {
        true => (
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        ),
        false => (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        ),
    };
    let (word, reason, message) = condition;
    set(
        &mut conditions,
        new(AVAILABLE, word, reason, message.to_owned(), now),
    );
    DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: sum(|set| set.status.replicas),
        updated_replicas: scene.newest.map_or(0, |set| set.status.replicas),
        ready_replicas: sum(|set| set.status.ready_replicas),
        available_replicas: available,
        unavailable_replicas: (sum(|set| set.spec.replicas) - available).max(0),
        terminating_replicas: terminating.reduce(|a, b| a + b),
        collision_count: deployment.status.collision_count,
        conditions,
    }
}

fn note_pause(conditions: &mut Vec<ProgressCondition>, deployment: &Deployment, now: Timestamp) {
    let reason = condition(conditions, PROGRESSING).map(|condition| condition.reason.clone());
    let reason = reason.unwrap_or_default();
    if deadline(deployment).is_none() || reason == TIMED_OUT {
        return;
    }
    if deployment.spec.paused && reason != PAUSED {
        let message = "Deployment is paused".to_owned();
        set(conditions, new(PROGRESSING, "Unknown", PAUSED, message, now));
    } else if !deployment.spec.paused && reason == PAUSED {
        let message = "Deployment is resumed".to_owned();
        set(
            conditions,
            new(PROGRESSING, "Unknown", "DeploymentResumed", message, now),
        );
    }
}

/// A template that was rolled out before anybody looked is known to be there.
fn note_found(conditions: &mut Vec<ProgressCondition>, scene: &Scene<'_>, now: Timestamp) {
    let is_new = deadline(scene.deployment).is_some() && condition(conditions, PROGRESSING).is_none();
    if let Some(newest) = scene.newest.filter(|_| is_new) {
        let message = format!("Found new replica set \"{}\"", newest.metadata.name);
        set(
            conditions,
            new(PROGRESSING, "True", "FoundNewReplicaSet", message, now),
        );
    }
}

fn note_progress(status: &mut DeploymentStatus, scene: &Scene<'_>, now: Timestamp) {
    let deployment = scene.deployment;
    let Some(deadline) = deadline(deployment) else {
        status
            .conditions
            .retain(|condition| condition.kind != PROGRESSING);
        return;
    };
    note_found(&mut status.conditions, scene, now);
    let before = condition(&status.conditions, PROGRESSING).cloned();
    let is_done = before.as_ref().is_some_and(|before| before.reason == DONE);
    if is_done && status.replicas == status.updated_replicas {
        return;
    }
    let subject = match scene.newest {
        Some(newest) => format!("ReplicaSet \"{}\"", newest.metadata.name),
        None => format!("Deployment \"{}\"", deployment.metadata.name),
    };
    if is_complete(status, scene) {
        let message = format!("{subject} has successfully progressed.");
        set(
            &mut status.conditions,
            new(PROGRESSING, "True", DONE, message, now),
        );
    } else if has_moved(&deployment.status, status) {
        let message = format!("{subject} is progressing.");
        let mut condition = new(PROGRESSING, "True", "ReplicaSetUpdated", message, now);
        // The deadline begins anew with each progress, so the time is written even if nothing else changes.
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
        set(
            &mut status.conditions,
            new(PROGRESSING, "False", TIMED_OUT, message, now),
        );
    }
}

fn is_complete(status: &DeploymentStatus, scene: &Scene<'_>) -> bool {
    let wanted = scene.bounds.wanted;
    status.updated_replicas == wanted && status.replicas == wanted && status.available_replicas == wanted
}

/// Whether there is more of the new or less of the old.
fn has_moved(before: &DeploymentStatus, now: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| status.replicas - status.updated_replicas;
    now.updated_replicas > before.updated_replicas
        || old(now) < old(before)
        || now.ready_replicas > before.ready_replicas
        || now.available_replicas > before.available_replicas
}

/// That Pods cannot be made is said by the ReplicaSet; by the newest first.
fn note_failures(conditions: &mut Vec<ProgressCondition>, scene: &Scene<'_>) {
    let failure = |set: &ReplicaSet| condition(&set.status.conditions, REPLICA_FAILURE).cloned();
    let found = scene
        .newest
        .and_then(failure)
        .or_else(|| scene.old.iter().find_map(|set| failure(set)));
    match found {
        Some(failure) => set(
            conditions,
            ProgressCondition {
                last_update_time: failure.last_transition_time.clone(),
                ..failure
            },
        ),
        None => conditions.retain(|condition| condition.kind != REPLICA_FAILURE),
    }
}

/// The longest time without progress; `None` if it may take for ever.
fn deadline(deployment: &Deployment) -> Option<SignedDuration> {
    let seconds = deployment.spec.progress_deadline_seconds?;
    (seconds != UNLIMITED).then(|| SignedDuration::from_secs(seconds))
}

/// For how long a condition has said nothing new.
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

/// Sets a condition, unless it says the same already; the time of its last change stays if its status does.
fn set(conditions: &mut Vec<ProgressCondition>, mut wanted: ProgressCondition) {
    if let Some(known) = condition(conditions, &wanted.kind) {
        if known.status == wanted.status && known.reason == wanted.reason {
            return;
        }
        if known.status == wanted.status {
            wanted.last_transition_time = known.last_transition_time.clone();
        }
    }
    conditions.retain(|condition| condition.kind != wanted.kind);
    conditions.push(wanted);
}
