//! The next step of a Deployment: a pure function of the Deployment and its ReplicaSets.
//!
//! A step is one kind of request, and the Deployment is reconciled again after it. Owners come first, then scaling or
//! the rollout, then the deletion of old ReplicaSets, and the status when nothing else is left. A paused Deployment is
//! scaled and cleaned up only. With the strategy Recreate, the first new Pod waits until all old ones have ended. Pods
//! that no ReplicaSet counts any more are listed for that.

use std::time::Duration;

use api::object::{Deployment, ObjectMeta, ReplicaSet};
use jiff::Timestamp;

use super::bounds::{is_observed, is_rolling};
use super::rollout::{NewReplicaSet, ReplicaSetChange, Rollout};
use super::status::{StatusDetail, StatusUpdate, status_update};
use super::{rolling, scaling};
use crate::owned_objects::{OwnerChange, owner_changes, read_selector};

/// Interval between lists of old Pods.
const OLD_PODS_PERIOD: Duration = Duration::from_secs(1);

/// Pods of old templates that no ReplicaSet counts any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OldPodsState {
    /// Not listed yet.
    Unknown,
    /// Some have not ended.
    Running,
    /// All have ended.
    Gone,
}

/// Inputs of [`reconcile()`].
pub(crate) struct Inputs<'a> {
    /// Deployment from the cache.
    pub deployment: &'a Deployment,
    /// The ReplicaSets that it owns, and the matching ReplicaSets of its namespace without an owner.
    pub sets: &'a [&'a ReplicaSet],
    /// Result of [`Step::ListOldPods`].
    pub old_pods: OldPodsState,
    /// The time of day.
    pub now: Timestamp,
}

/// The next write. The Deployment is reconciled again after each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Adopt or release ReplicaSets.
    ChangeOwners(Vec<OwnerChange>),
    /// Create a ReplicaSet for a new template.
    Create(Box<NewReplicaSet>),
    /// Change ReplicaSets, in this order.
    Change(Vec<ReplicaSetChange>),
    /// Delete old ReplicaSets beyond the revision history limit.
    Delete(Vec<ObjectMeta>),
    /// List the Pods of old templates, whose hash differs from this one.
    ListOldPods(String),
    /// Update status and revision.
    UpdateStatus(Box<StatusUpdate>),
}

/// The result of a reconciliation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Decision {
    /// The next write; `None` if observed and desired state agree.
    pub step: Option<Step>,
    /// Delay of the next reconciliation without a change.
    pub requeue_after: Option<Duration>,
}

/// Computes the next step of a Deployment.
pub(crate) fn reconcile(inputs: &Inputs<'_>) -> Decision {
    let deployment = inputs.deployment;
    let Some(selector) = read_selector(&deployment.spec.selector) else {
        // Validation rejects such a selector.
        return Decision::default();
    };
    let changes = owner_changes(deployment, &selector, inputs.sets.iter().map(|set| &set.metadata));
    if !changes.is_empty() {
        return next(Step::ChangeOwners(changes));
    }
    let rollout = Rollout::of(deployment, inputs.sets);
    let (step, detail, requeue_after) = match deployment.metadata.deletion_timestamp {
        Some(_) => (None, StatusDetail::Counts, None),
        None => rollout_step(inputs, &rollout),
    };
    if let Some(step) = step {
        return next(step);
    }
    let update = status_update(&rollout, detail, inputs.now);
    if update.differs_from(deployment) {
        return next(Step::UpdateStatus(Box::new(update)));
    }
    let deadline = update.deadline_after(deployment, inputs.now);
    Decision {
        step: None,
        requeue_after: requeue_after.into_iter().chain(deadline).min(),
    }
}

fn next(step: Step) -> Decision {
    Decision {
        step: Some(step),
        requeue_after: None,
    }
}

/// Returns the next step of the rollout, the detail of the status, and the delay of the next reconciliation.
fn rollout_step(
    inputs: &Inputs<'_>,
    rollout: &Rollout<'_>,
) -> (Option<Step>, StatusDetail, Option<Duration>) {
    if let Some(change) = rollout.annotate_newest() {
        return (Some(Step::Change(vec![change])), StatusDetail::Counts, None);
    }
    let is_paused = rollout.deployment.spec.paused;
    if is_paused || rollout.is_scaled() {
        let step = scaling::scale(rollout).map(Step::Change);
        let step = step.or_else(|| {
            is_paused
                .then(|| rollout.excess_sets().map(Step::Delete))
                .flatten()
        });
        if is_paused || step.is_some() {
            return (step, StatusDetail::Counts, None);
        }
    }
    let (step, requeue_after) = if is_rolling(rollout.deployment) {
        (rolling_step(rollout), None)
    } else {
        recreate_step(inputs, rollout)
    };
    let is_complete = rollout.is_complete();
    let step = step.or_else(|| {
        is_complete
            .then(|| rollout.excess_sets().map(Step::Delete))
            .flatten()
    });
    (step, StatusDetail::Progress, requeue_after)
}

fn rolling_step(rollout: &Rollout<'_>) -> Option<Step> {
    let Some(newest) = rollout.newest else {
        let room = rolling::surge_room(rollout).unwrap_or(0);
        return Some(create_step(rollout, room.min(rollout.bounds.desired)));
    };
    let changes = rolling::grow_newest(rollout, newest).or_else(|| rolling::shrink_old(rollout, newest));
    changes.map(Step::Change)
}

fn create_step(rollout: &Rollout<'_>, replicas: i64) -> Step {
    Step::Create(Box::new(rollout.new_replica_set(replicas)))
}

/// Stops all old Pods before the first new one starts (strategy `Recreate`).
fn recreate_step(inputs: &Inputs<'_>, rollout: &Rollout<'_>) -> (Option<Step>, Option<Duration>) {
    let active = rollout.old.iter().filter(|set| set.spec.replicas > 0);
    let ended: Vec<ReplicaSetChange> = active.map(|set| rollout.resize(set, 0)).collect();
    if !ended.is_empty() {
        return (Some(Step::Change(ended)), None);
    }
    let is_whole = rollout
        .newest
        .is_some_and(|newest| newest.spec.replicas == rollout.bounds.desired);
    if is_whole {
        return (None, None);
    }
    let has_pods = |set: &&ReplicaSet| {
        !is_observed(set) || set.status.replicas > 0 || set.status.terminating_replicas.unwrap_or(0) > 0
    };
    if rollout.old.iter().any(has_pods) {
        // The watch reports the end of the old Pods.
        return (None, None);
    }
    match inputs.old_pods {
        OldPodsState::Unknown => (Some(Step::ListOldPods(rollout.newest_hash())), None),
        OldPodsState::Running => (None, Some(OLD_PODS_PERIOD)),
        OldPodsState::Gone => {
            let step = match rollout.newest {
                None => create_step(rollout, rollout.bounds.desired),
                Some(newest) => Step::Change(vec![rollout.resize(newest, rollout.bounds.desired)]),
            };
            (Some(step), None)
        }
    }
}

#[cfg(test)]
mod tests;
