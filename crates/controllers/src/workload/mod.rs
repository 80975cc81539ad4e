//! The common part of the controllers that create and delete Pods directly: StatefulSets, DaemonSets, Jobs and
//! ReplicationControllers.
//!
//! A kind implements [`Workload`]: a pure function from its objects to the next [`Step`]. The controller writes each
//! step and applies it to the caches before the next one is computed. After a failure, whose effect is unknown, the
//! Pods are read first.

mod burst;
mod controller;
pub(crate) mod pods;
pub(crate) mod revisions;
mod run;
mod status;
#[cfg(test)]
pub(crate) mod tests;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use api::object::{ControllerRevision, Node, ObjectMeta, Resource};
use jiff::Timestamp;
use reconcile::events::EventText;
use serde_json::Value;

use crate::job::FINALIZER;
use crate::owned_objects::OwnerChange;
use crate::replica_set::ReplicaPod;
use crate::selection::Controller;

pub(crate) use burst::pods_at_once;
pub(crate) use run::run;
pub(crate) use status::{count, status_patch, timestamp};

/// A kind with a controller that creates and deletes Pods.
pub(crate) trait Workload: Resource + Clone + Debug {
    /// The controller of the kind.
    const CONTROLLER: Controller;
    /// True if the controller reads ControllerRevisions.
    const HAS_REVISIONS: bool = false;
    /// True if the controller reads Nodes.
    const READS_NODES: bool = false;

    /// True if Pods have [`FINALIZER`], which has to be removed from the Pods of a deleted object.
    const TRACKS_PODS: bool = false;

    /// Returns the selector of the Pods, a `LabelSelector`.
    fn selector(&self) -> &Value;

    /// Computes the next step.
    fn reconcile(inputs: &Inputs<'_, Self>) -> Decision;

    /// Returns the message of the Event for a Pod that is created or deleted; `verb` is `create` or `delete`.
    fn message(&self, verb: &str, pod: &str) -> String {
        let verb = if verb == "create" { "Created" } else { "Deleted" };
        format!("{verb} pod: {pod}")
    }
}

/// Returns true if the Pod has the finalizer of Jobs.
pub(crate) fn is_tracked(pod: &ReplicaPod) -> bool {
    pod.metadata
        .finalizers
        .iter()
        .any(|finalizer| finalizer == FINALIZER)
}

/// Inputs of [`Workload::reconcile`].
pub(crate) struct Inputs<'a, W> {
    /// The object from the cache.
    pub(crate) workload: &'a W,
    /// The Pods that it owns, and the matching Pods of its namespace without an owner.
    pub(crate) pods: &'a [&'a ReplicaPod],
    /// ControllerRevisions of the workload.
    pub(crate) revisions: &'a [&'a ControllerRevision],
    /// Names of all ControllerRevisions of its namespace.
    pub(crate) revision_names: &'a BTreeSet<&'a str>,
    /// All Nodes by name.
    pub(crate) nodes: &'a BTreeMap<String, Node>,
    /// The time of day.
    pub(crate) now: Timestamp,
}

/// The next write. The object is reconciled again after each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Adopt or release Pods.
    ChangeOwners(Vec<OwnerChange>),
    /// Adopt ControllerRevisions.
    AdoptRevisions(Vec<OwnerChange>),
    /// Create a ControllerRevision.
    CreateRevision(Box<ControllerRevision>),
    /// Make an earlier ControllerRevision the current one by this number.
    RenumberRevision(Box<ObjectMeta>, i64),
    /// Delete ControllerRevisions.
    DeleteRevisions(Vec<ObjectMeta>),
    /// Create and delete Pods.
    Pods(PodChanges),
    /// Remove the finalizer of Jobs from Pods.
    ReleasePods(Vec<ObjectMeta>),
    /// Remove the finalizer of Jobs from Pods, so that they do not count, and delete them.
    WithdrawPods(Vec<ObjectMeta>),
    /// Patch the status and record Events.
    UpdateStatus(Value, Vec<EventText>),
    /// Delete the object itself.
    DeleteOwner,
}

/// Pods to create and to delete.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PodChanges {
    /// Pods to create.
    pub(crate) create: Vec<Value>,
    /// Pods to delete.
    pub(crate) delete: Vec<ObjectMeta>,
}

impl PodChanges {
    /// Returns the step; `None` if nothing changes.
    pub(crate) fn into_step(self) -> Option<Step> {
        let is_empty = self.create.is_empty() && self.delete.is_empty();
        (!is_empty).then_some(Step::Pods(self))
    }
}

/// The result of a reconciliation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Decision {
    /// The next write; `None` if observed and desired state agree.
    pub(crate) step: Option<Step>,
    /// Delay until time alone changes the result.
    pub(crate) requeue_after: Option<Duration>,
}

impl Decision {
    /// Returns the decision for a write.
    pub(crate) fn step(step: Step) -> Self {
        Self {
            step: Some(step),
            requeue_after: None,
        }
    }

    /// Returns the decision to wait; without a delay until an object changes.
    pub(crate) fn wait(requeue_after: Option<Duration>) -> Self {
        Self {
            step: None,
            requeue_after,
        }
    }
}
