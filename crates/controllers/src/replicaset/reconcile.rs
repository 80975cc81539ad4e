//! What is to be done about a ReplicaSet: a pure function from it and the Pods that are known.

use std::collections::HashMap;
use std::time::Duration;

use api::object::{ObjectMeta, ReplicaSet, ReplicaSetStatus};
use jiff::Timestamp;

use super::BURST;
use super::pod::ReplicaPod;
use super::ranking::first_to_go;
use super::status::status_of;
use crate::owned::{Claim, claims, read_selector};

/// Everything that decides about a ReplicaSet.
pub struct Inputs<'a> {
    /// It.
    pub set: &'a ReplicaSet,
    /// The Pods that it owns, and those of its namespace that nobody owns and its selector chooses.
    pub pods: &'a [&'a ReplicaPod],
    /// The active Pods of all ReplicaSets with the same owner, by Node; may be empty where none is to go.
    pub siblings: &'a HashMap<String, usize>,
    /// The time of day.
    pub now: Timestamp,
}

/// The next write. After each the ReplicaSet is looked at again.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Pods become its own, or cease to be.
    Claim(Vec<Claim>),
    /// So many Pods are created.
    Create(usize),
    /// These Pods are deleted.
    Delete(Vec<ObjectMeta>),
    /// Its status becomes this.
    Say(ReplicaSetStatus),
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The next write, if any is due.
    pub step: Option<Step>,
    /// When to look again though nothing has changed: a Pod becomes available then.
    pub again_after: Option<Duration>,
}

/// Decides about a ReplicaSet.
pub fn reconcile(inputs: &Inputs<'_>) -> Outcome {
    let set = inputs.set;
    let Some(selector) = read_selector(&set.spec.selector) else {
        // The server lets none in that cannot be read.
        return Outcome::default();
    };
    let candidates = inputs.pods.iter().filter(|pod| pod.is_active());
    let claims = claims(set, &selector, candidates.map(|pod| &pod.metadata));
    if !claims.is_empty() {
        return next(Step::Claim(claims));
    }
    let own: Vec<&ReplicaPod> = owned(set, inputs.pods);
    if set.metadata.deletion_timestamp.is_none()
        && let Some(step) = scaled(inputs, &own)
    {
        return next(step);
    }
    let status = status_of(set, &own, None, inputs.now);
    if status != set.status {
        return next(Step::Say(status));
    }
    let waits = own.iter().filter(|pod| pod.is_active());
    let waits = waits.filter_map(|pod| pod.available_in(set.spec.min_ready_seconds, inputs.now));
    let again_after = waits.filter(|wait| wait.is_positive()).min();
    Outcome {
        step: None,
        again_after: again_after.and_then(|wait| Duration::try_from(wait).ok()),
    }
}

/// Those of the Pods that are the ReplicaSet's own.
pub(super) fn owned<'a>(set: &ReplicaSet, pods: &[&'a ReplicaPod]) -> Vec<&'a ReplicaPod> {
    let is_own = |pod: &&&ReplicaPod| {
        let controller = pod.metadata.controller();
        controller.is_some_and(|controller| controller.uid == set.metadata.uid)
    };
    pods.iter().filter(is_own).copied().collect()
}

fn next(step: Step) -> Outcome {
    Outcome {
        step: Some(step),
        again_after: None,
    }
}

/// What brings the number of Pods nearer to the one that is wanted.
fn scaled(inputs: &Inputs<'_>, own: &[&ReplicaPod]) -> Option<Step> {
    let active: Vec<&ReplicaPod> = own.iter().filter(|pod| pod.is_active()).copied().collect();
    let wanted = usize::try_from(inputs.set.spec.replicas).unwrap_or(0);
    if active.len() < wanted {
        return Some(Step::Create((wanted - active.len()).min(BURST)));
    }
    let excess = (active.len() - wanted).min(BURST);
    if excess == 0 {
        return None;
    }
    let go = first_to_go(&active, inputs.siblings, excess, inputs.now);
    Some(Step::Delete(go.iter().map(|pod| pod.metadata.clone()).collect()))
}

#[cfg(test)]
mod tests;
