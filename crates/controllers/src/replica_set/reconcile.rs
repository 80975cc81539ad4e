//! The next step of a ReplicaSet: a pure function of the ReplicaSet and its Pods.

use std::collections::HashMap;
use std::time::Duration;

use api::object::{ObjectMeta, ReplicaSet, ReplicaSetStatus};
use jiff::Timestamp;

use super::BURST;
use super::pod::ReplicaPod;
use super::ranking::pods_to_delete;
use super::status::status_of;
use crate::owned_objects::{OwnerChange, owner_changes, read_selector};
use crate::workload::pods_at_once;

/// Inputs of [`reconcile()`].
pub(crate) struct Inputs<'a> {
    /// ReplicaSet from the cache.
    pub set: &'a ReplicaSet,
    /// The Pods that it owns, and the matching Pods of its namespace without an owner.
    pub pods: &'a [&'a ReplicaPod],
    /// Active Pods of all ReplicaSets with the same owner by Node; may be empty if no Pod is to be deleted.
    pub siblings: &'a HashMap<String, usize>,
    /// The time of day.
    pub now: Timestamp,
}

/// The next write. The ReplicaSet is reconciled again after each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Adopt or release Pods.
    ChangeOwners(Vec<OwnerChange>),
    /// Create this number of Pods.
    Create(usize),
    /// Delete these Pods.
    Delete(Vec<ObjectMeta>),
    /// Update the status.
    UpdateStatus(ReplicaSetStatus),
}

/// The result of a reconciliation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Decision {
    /// The next write; `None` if observed and desired state agree.
    pub step: Option<Step>,
    /// Delay until the next Pod becomes available.
    pub requeue_after: Option<Duration>,
}

/// Computes the next step of a ReplicaSet.
pub(crate) fn reconcile(inputs: &Inputs<'_>) -> Decision {
    let set = inputs.set;
    let Some(selector) = read_selector(&set.spec.selector) else {
        // Validation rejects such a selector.
        return Decision::default();
    };
    let candidates = inputs.pods.iter().filter(|pod| pod.is_active());
    let changes = owner_changes(set, &selector, candidates.map(|pod| &pod.metadata));
    if !changes.is_empty() {
        return next(Step::ChangeOwners(changes));
    }
    let own: Vec<&ReplicaPod> = owned_pods(set, inputs.pods);
    if set.metadata.deletion_timestamp.is_none()
        && let Some(step) = scale_step(inputs, &own)
    {
        return next(step);
    }
    let status = status_of(set, &own, None, inputs.now);
    if status != set.status {
        return next(Step::UpdateStatus(status));
    }
    let waits = own.iter().filter(|pod| pod.is_active());
    let waits = waits.filter_map(|pod| pod.available_in(set.spec.min_ready_seconds, inputs.now));
    let requeue_after = waits.filter(|wait| wait.is_positive()).min();
    Decision {
        step: None,
        requeue_after: requeue_after.and_then(|wait| Duration::try_from(wait).ok()),
    }
}

/// Returns the Pods that the ReplicaSet owns.
pub(super) fn owned_pods<'a>(set: &ReplicaSet, pods: &[&'a ReplicaPod]) -> Vec<&'a ReplicaPod> {
    let is_own = |pod: &&&ReplicaPod| {
        let controller = pod.metadata.controller();
        controller.is_some_and(|controller| controller.uid == set.metadata.uid)
    };
    pods.iter().filter(is_own).copied().collect()
}

fn next(step: Step) -> Decision {
    Decision {
        step: Some(step),
        requeue_after: None,
    }
}

/// Returns the step towards the desired number of Pods.
fn scale_step(inputs: &Inputs<'_>, own: &[&ReplicaPod]) -> Option<Step> {
    let active: Vec<&ReplicaPod> = own.iter().filter(|pod| pod.is_active()).copied().collect();
    let desired = usize::try_from(inputs.set.spec.replicas).unwrap_or(0);
    if active.len() < desired {
        let at_once = pods_at_once(BURST, &inputs.set.spec.template);
        return Some(Step::Create((desired - active.len()).min(at_once)));
    }
    let excess = (active.len() - desired).min(BURST);
    if excess == 0 {
        return None;
    }
    let victims = pods_to_delete(&active, inputs.siblings, excess, inputs.now);
    Some(Step::Delete(
        victims.iter().map(|pod| pod.metadata.clone()).collect(),
    ))
}

#[cfg(test)]
mod tests;
