//! Pods of workloads: ownership, creation from a template, availability.

use std::time::Duration;

use api::object::Resource;
use api::tree::child;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::job::FINALIZER;
use crate::owned_objects::{OwnerChange, owner_changes, read_selector, reference_to};
use crate::replica_set::ReplicaPod;

use super::Inputs;
use super::Workload;

/// Returns the Pods that the workload owns.
pub(crate) fn owned_pods<'a, W: Workload>(inputs: &Inputs<'a, W>) -> Vec<&'a ReplicaPod> {
    let uid = &inputs.workload.metadata().uid;
    let is_own = |pod: &&&ReplicaPod| pod.metadata.controller().is_some_and(|owner| owner.uid == *uid);
    inputs.pods.iter().filter(is_own).copied().collect()
}

/// Returns the adoptions and releases of Pods; `None` if the selector is invalid, which validation rejects.
pub(crate) fn pod_owner_changes<W: Workload>(inputs: &Inputs<'_, W>) -> Option<Vec<OwnerChange>> {
    let selector = read_selector(inputs.workload.selector())?;
    let candidates = inputs.pods.iter().filter(|pod| pod.is_active());
    let mut changes = owner_changes(inputs.workload, &selector, candidates.map(|pod| &pod.metadata));
    if W::TRACKS_PODS {
        changes.iter_mut().for_each(track);
    }
    Some(changes)
}

/// Adds the finalizer of Jobs to a change that adopts a Pod, so that the Pod counts. Removes it from a change that
/// releases a Pod, so that the Pod can end.
fn track(change: &mut OwnerChange) {
    let mut finalizers = change.meta.finalizers.clone();
    finalizers.retain(|finalizer| finalizer != FINALIZER);
    if change.is_adoption {
        finalizers.push(FINALIZER.to_owned());
    }
    change.finalizers = Some(finalizers);
}

/// Returns a Pod from a template, owned by the workload. It has the name, or the prefix of a generated name that ends
/// with a hyphen.
pub(crate) fn pod_from<W: Resource>(workload: &W, template: &Value, name: &str) -> Value {
    let metadata = child(template, "metadata");
    let field = if name.ends_with('-') {
        "generateName"
    } else {
        "name"
    };
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            field: name,
            "namespace": workload.metadata().namespace,
            "ownerReferences": [reference_to(workload)],
        },
        "spec": child(template, "spec"),
    });
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = metadata.get(field) {
            pod["metadata"][field] = value.clone();
        }
    }
    pod
}

/// Returns true if the Pod is ready for `min_ready_seconds`.
pub(crate) fn is_available(pod: &ReplicaPod, min_ready_seconds: i64, now: Timestamp) -> bool {
    pod.available_in(min_ready_seconds, now)
        .is_some_and(|left| left.is_zero())
}

/// Returns the delay until the next of the Pods becomes available.
pub(crate) fn next_available<'a>(
    pods: impl Iterator<Item = &'a ReplicaPod>,
    min_ready_seconds: i64,
    now: Timestamp,
) -> Option<Duration> {
    let waits = pods.filter(|pod| pod.is_active());
    let waits = waits.filter_map(|pod| pod.available_in(min_ready_seconds, now));
    let wait = waits.filter(SignedDuration::is_positive).min()?;
    Duration::try_from(wait).ok()
}
