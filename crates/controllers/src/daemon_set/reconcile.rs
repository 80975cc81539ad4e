//! The next step of a DaemonSet: a pure function of the DaemonSet, its Pods, its revisions and the Nodes.
//!
//! The template gives each Node a fitness: it runs a Pod, keeps the one that it has, or refuses Pods. The status and
//! old revisions precede changes of Pods. A rolling update begins only when every Node has the Pods that its fitness
//! requires. A Pod that is on a deleted Node stays, because it may still run. The replacement of an ended Pod waits for
//! a pause, which bounds the rate for Pods that their Node refuses.

use std::collections::BTreeMap;
use std::time::Duration;

use api::object::{ControllerRevision, DaemonSet, ObjectMeta};
use serde_json::{Value, json};

use super::placement::{Fitness, Placement, hash_of, node_of, pod_for};
use super::rolling;
use crate::replica_set::ReplicaPod;
use crate::workload::pods::{is_available, next_available, owned_pods, pod_owner_changes};
use crate::workload::revisions::{REVISION_LABEL, excess_revisions, update_revision};
use crate::workload::{Decision, Inputs, PodChanges, Step, count, pods_at_once, status_patch};

/// Upper bound of Pods that one job creates or deletes, as upstream.
const BURST: usize = 250;
/// Minimum age of a failed Pod that is replaced. It bounds the rate of replacements of a Pod that its Node refuses.
const REPLACEMENT_PAUSE: Duration = Duration::from_secs(10);

/// A DaemonSet with its Pods by Node.
pub(super) struct DaemonSetPods<'a> {
    pub(super) inputs: &'a Inputs<'a, DaemonSet>,
    pub(super) update: &'a ControllerRevision,
    /// Fitness of each Node.
    pub(super) nodes: BTreeMap<&'a str, Fitness>,
    /// Pods by the name of their Node; "" for Pods without one.
    pub(super) pods: BTreeMap<&'a str, Vec<&'a ReplicaPod>>,
}

/// Computes the next step of a DaemonSet.
pub(super) fn reconcile(inputs: &Inputs<'_, DaemonSet>) -> Decision {
    let set = inputs.workload;
    let Some(changes) = pod_owner_changes(inputs) else {
        return Decision::default();
    };
    if !changes.is_empty() {
        return Decision::step(Step::ChangeOwners(changes));
    }
    let Some(placement) = Placement::of(set) else {
        return Decision::default();
    };
    let update = match update_revision(inputs, &set.spec.template, REVISION_LABEL) {
        Ok(update) => update,
        Err(_) if set.metadata.deletion_timestamp.is_some() => return Decision::default(),
        Err(step) => return Decision::step(step),
    };
    let mut pods: BTreeMap<&str, Vec<&ReplicaPod>> = BTreeMap::new();
    for pod in owned_pods(inputs) {
        pods.entry(node_of(pod).unwrap_or("")).or_default().push(pod);
    }
    let nodes = inputs.nodes.iter();
    let daemons = DaemonSetPods {
        inputs,
        update,
        nodes: nodes
            .map(|(name, node)| (&**name, placement.fitness(node)))
            .collect(),
        pods,
    };
    daemons.next()
}

impl<'a> DaemonSetPods<'a> {
    /// Returns the next write: status, removal of a revision, or creations and deletions of Pods.
    fn next(&self) -> Decision {
        let set = self.inputs.workload;
        if let Some(patch) = status_patch(set, &set.status, &self.status()) {
            return Decision::step(Step::UpdateStatus(patch, Vec::new()));
        }
        if set.metadata.deletion_timestamp.is_some() {
            return Decision::default();
        }
        let all = || self.pods.values().flatten();
        let is_used = |revision: &ControllerRevision| {
            let hash = Some(hash_of(revision));
            revision.metadata.uid == self.update.metadata.uid
                || all().any(|pod| pod.metadata.labels.get(REVISION_LABEL).map(String::as_str) == hash)
        };
        if let Some(step) = excess_revisions(self.inputs, is_used, set.spec.revision_history_limit) {
            return Decision::step(step);
        }
        let mut changes = self.placement_changes();
        if changes.create.is_empty()
            && changes.delete.is_empty()
            && set.spec.update_strategy.kind == "RollingUpdate"
        {
            changes = rolling::changes(self);
        }
        changes.delete.truncate(BURST);
        if let Some(step) = changes.into_step() {
            return Decision::step(step);
        }
        let available = next_available(all().copied(), set.spec.min_ready_seconds, self.inputs.now);
        let ended = all().filter(|pod| pod.is_finished());
        Decision::wait(
            ended
                .filter_map(|pod| self.replacement_pause(pod))
                .chain(available)
                .min(),
        )
    }

    /// Returns the number of Pods that one job creates at most.
    pub(super) fn created_max(&self) -> usize {
        pods_at_once(BURST, &self.inputs.workload.spec.template)
    }

    /// Returns the Pods to create on Nodes without one, and to delete on others.
    fn placement_changes(&self) -> PodChanges {
        let mut changes = PodChanges::default();
        let created_max = self.created_max();
        for (node, fitness) in &self.nodes {
            let pods = self.on(node);
            match fitness {
                Fitness::Runs if pods.is_empty() => {
                    if changes.create.len() < created_max {
                        changes
                            .create
                            .push(pod_for(self.inputs.workload, node, self.update));
                    }
                }
                Fitness::Runs | Fitness::Keeps => changes.delete.extend(self.superfluous(pods)),
                Fitness::Refuses => changes.delete.extend(without_deleted(pods)),
            }
        }
        // Pods whose Node is deleted before they ran. Others stay: they may still run.
        let is_gone = |node: &&&str| !self.nodes.contains_key(**node);
        for node in self.pods.keys().filter(is_gone) {
            let pods = self.on(node).iter().copied();
            let pending: Vec<&ReplicaPod> = pods.filter(|pod| pod.spec.node_name.is_empty()).collect();
            changes.delete.extend(without_deleted(&pending));
        }
        changes
    }

    /// Returns the Pods of a Node that ended, and those beside the oldest one. A rolling update with a surge keeps the
    /// oldest of each template.
    fn superfluous(&self, pods: &[&ReplicaPod]) -> Vec<ObjectMeta> {
        let is_live = |pod: &&&ReplicaPod| pod.metadata.deletion_timestamp.is_none();
        let (ended, mut running): (Vec<&ReplicaPod>, Vec<&ReplicaPod>) = pods
            .iter()
            .filter(is_live)
            .copied()
            .partition(|pod| pod.is_finished());
        let is_due = |pod: &&ReplicaPod| self.replacement_pause(pod).is_none();
        let mut excess: Vec<ObjectMeta> = ended
            .into_iter()
            .filter(is_due)
            .map(|pod| pod.metadata.clone())
            .collect();
        running.sort_by_key(|pod| {
            (
                pod.spec.node_name.is_empty(),
                pod.created(),
                pod.metadata.name.clone(),
            )
        });
        let groups = if rolling::surge_of(self) > 0 {
            let (new, old): (Vec<&ReplicaPod>, _) = running.into_iter().partition(|pod| self.is_updated(pod));
            vec![new, old]
        } else {
            vec![running]
        };
        for group in groups {
            excess.extend(group.into_iter().skip(1).map(|pod| pod.metadata.clone()));
        }
        excess
    }

    /// Returns the Pods on a Node.
    pub(super) fn on(&self, node: &str) -> &[&'a ReplicaPod] {
        self.pods.get(node).map_or(&[], Vec::as_slice)
    }

    /// Returns the Nodes that are to run a Pod.
    pub(super) fn desired(&self) -> impl Iterator<Item = &'a str> {
        let nodes = self
            .nodes
            .iter()
            .filter(|(_, fitness)| **fitness == Fitness::Runs);
        nodes.map(|(node, _)| *node)
    }

    /// Returns true if the Pod has the current template.
    pub(super) fn is_updated(&self, pod: &ReplicaPod) -> bool {
        pod.metadata.labels.get(REVISION_LABEL).map(String::as_str) == Some(hash_of(self.update))
    }

    /// Returns true if the Pod is ready for long enough.
    pub(super) fn is_available(&self, pod: &ReplicaPod) -> bool {
        is_available(pod, self.inputs.workload.spec.min_ready_seconds, self.inputs.now)
    }

    /// Returns the time until an ended Pod is replaced. If a failed Pod is still ready, a client marked it as failed.
    /// The Node did not refuse the Pod, so its replacement needs no pause.
    fn replacement_pause(&self, pod: &ReplicaPod) -> Option<Duration> {
        if pod.is_ready() {
            return None;
        }
        let age = self.inputs.now.duration_since(pod.created()?);
        let age = Duration::try_from(age).unwrap_or_default();
        REPLACEMENT_PAUSE
            .checked_sub(age)
            .filter(|pause| !pause.is_zero())
    }

    fn status(&self) -> Value {
        let (mut desired, mut scheduled, mut ready, mut available, mut updated, mut misscheduled) =
            (0, 0, 0, 0, 0, 0);
        for (node, fitness) in &self.nodes {
            let oldest = self
                .on(node)
                .iter()
                .min_by_key(|pod| (!pod.is_ready(), pod.created()));
            if *fitness != Fitness::Runs {
                misscheduled += usize::from(oldest.is_some());
                continue;
            }
            desired += 1;
            let Some(pod) = oldest else { continue };
            scheduled += 1;
            ready += usize::from(pod.is_ready());
            available += usize::from(self.is_available(pod));
            updated += usize::from(self.on(node).iter().any(|pod| self.is_updated(pod)));
        }
        json!({
            "observedGeneration": self.inputs.workload.metadata.generation,
            "desiredNumberScheduled": desired,
            "currentNumberScheduled": scheduled,
            "numberMisscheduled": misscheduled,
            "numberReady": ready,
            "numberAvailable": count(available),
            "numberUnavailable": count(desired - available),
            "updatedNumberScheduled": count(updated),
        })
    }
}

fn without_deleted(pods: &[&ReplicaPod]) -> Vec<ObjectMeta> {
    let live = pods
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none());
    live.map(|pod| pod.metadata.clone()).collect()
}
