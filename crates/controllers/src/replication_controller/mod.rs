//! ReplicationControllers: the desired number of Pods from a template, as ReplicaSets with a map as selector.

use std::collections::HashMap;

use api::object::ReplicationController;
use api::tree::{child, entries};
use serde_json::{Value, json};

use crate::replica_set::ReplicaPod;
use crate::replica_set::ranking::pods_to_delete;
use crate::selection::Controller;
use crate::workload::pods::{is_available, next_available, owned_pods, pod_from, pod_owner_changes};
use crate::workload::{Decision, Inputs, PodChanges, Step, Workload, count, pods_at_once, status_patch};

/// Upper bound of Pods that one job creates or deletes, as upstream.
const BURST: usize = 500;

impl Workload for ReplicationController {
    const CONTROLLER: Controller = Controller::ReplicationController;

    fn selector(&self) -> &Value {
        &self.spec.selector
    }

    fn reconcile(inputs: &Inputs<'_, Self>) -> Decision {
        let controller = inputs.workload;
        let Some(changes) = pod_owner_changes(inputs) else {
            return Decision::default();
        };
        if !changes.is_empty() {
            return Decision::step(Step::ChangeOwners(changes));
        }
        let pods = owned_pods(inputs);
        if controller.metadata.deletion_timestamp.is_none()
            && let Some(step) = scale(inputs, &pods).into_step()
        {
            return Decision::step(step);
        }
        let status = status_of(inputs, &pods);
        if let Some(patch) = status_patch(controller, &controller.status, &status) {
            return Decision::step(Step::UpdateStatus(patch, Vec::new()));
        }
        let seconds = controller.spec.min_ready_seconds;
        Decision::wait(next_available(pods.into_iter(), seconds, inputs.now))
    }
}

/// Returns the Pods to create or delete.
fn scale(inputs: &Inputs<'_, ReplicationController>, pods: &[&ReplicaPod]) -> PodChanges {
    let controller = inputs.workload;
    let active: Vec<&ReplicaPod> = pods.iter().copied().filter(|pod| pod.is_active()).collect();
    let desired = usize::try_from(controller.spec.replicas).unwrap_or(0);
    let mut changes = PodChanges::default();
    let missing = desired.saturating_sub(active.len());
    if missing > 0 {
        let prefix = format!("{}-", controller.metadata.name);
        let template = &controller.spec.template;
        let pod = pod_from(controller, template, &prefix);
        changes.create = vec![pod; missing.min(pods_at_once(BURST, template))];
    }
    let excess = active.len().saturating_sub(desired).min(BURST);
    if excess > 0 {
        let victims = pods_to_delete(&active, &HashMap::new(), excess, inputs.now);
        changes.delete = victims.iter().map(|pod| pod.metadata.clone()).collect();
    }
    changes
}

fn status_of(inputs: &Inputs<'_, ReplicationController>, pods: &[&ReplicaPod]) -> Value {
    let controller = inputs.workload;
    let labels = child(&controller.spec.template, "metadata");
    let has_labels = |pod: &ReplicaPod| {
        entries(labels, "labels")
            .all(|(key, value)| pod.metadata.labels.get(key).is_some_and(|label| label == value))
    };
    let number = |is_counted: &dyn Fn(&ReplicaPod) -> bool| {
        let active = pods.iter().filter(|pod| pod.is_active());
        active.filter(|pod| is_counted(pod)).count()
    };
    let seconds = controller.spec.min_ready_seconds;
    json!({
        "observedGeneration": controller.metadata.generation,
        "replicas": number(&|_| true),
        "fullyLabeledReplicas": count(number(&has_labels)),
        "readyReplicas": count(number(&ReplicaPod::is_ready)),
        "availableReplicas": count(number(&|pod| is_available(pod, seconds, inputs.now))),
    })
}

#[cfg(test)]
mod tests;
