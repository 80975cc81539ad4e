//! The next step of a StatefulSet: a pure function of the StatefulSet, its Pods and its revisions.
//!
//! The order of steps is: owners of Pods, the revision, the status, old revisions, Pods. Missing Pods are created in
//! ascending order and excess ones deleted in descending order. If the Pods are ordered, each waits for the one before
//! to be available; with the policy Parallel none waits. A rolling update replaces one Pod at a time, from the highest
//! number down to the partition. An ended Pod is replaced after a pause, which bounds the rate for Pods that cannot
//! run.

use std::collections::BTreeMap;
use std::time::Duration;

use api::object::{ControllerRevision, StatefulSet};

use super::pods::{first_ordinal, is_running, ordinal_of, pod_of, revision_of};
use super::status::{current_revision, status_of};
use crate::replica_set::ReplicaPod;
use crate::workload::pods::{next_available, owned_pods, pod_owner_changes};
use crate::workload::revisions::{excess_revisions, update_revision};
use crate::workload::{Decision, Inputs, PodChanges, Step, pods_at_once, status_patch};

/// Label of revisions with the hash of the template.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// Upper bound of Pods that one job creates or deletes under the policy Parallel.
const BURST: usize = 500;
/// Minimum age of an ended Pod that is replaced. It bounds the rate of replacements of a Pod that cannot run.
const REPLACEMENT_PAUSE: Duration = Duration::from_secs(5);

/// Computes the next step of a StatefulSet.
pub(super) fn reconcile(inputs: &Inputs<'_, StatefulSet>) -> Decision {
    let set = inputs.workload;
    let is_ordinal = |pod: &&&ReplicaPod| ordinal_of(set, pod).is_some();
    let named: Vec<&ReplicaPod> = inputs.pods.iter().filter(is_ordinal).copied().collect();
    let inputs = &Inputs {
        pods: &named,
        ..*inputs
    };
    let Some(changes) = pod_owner_changes(inputs) else {
        return Decision::default();
    };
    if !changes.is_empty() {
        return Decision::step(Step::ChangeOwners(changes));
    }
    let update = match update_revision(inputs, &set.spec.template, HASH_LABEL) {
        Ok(update) => update,
        Err(_) if set.metadata.deletion_timestamp.is_some() => return Decision::default(),
        Err(step) => return Decision::step(step),
    };
    let pods = owned_pods(inputs);
    let status = status_of(set, &pods, update, inputs.now);
    if let Some(patch) = status_patch(set, &set.status, &status) {
        return Decision::step(Step::UpdateStatus(patch, Vec::new()));
    }
    if set.metadata.deletion_timestamp.is_some() {
        return Decision::default();
    }
    let current = current_revision(set, update);
    let is_used = |revision: &ControllerRevision| {
        let name = &revision.metadata.name;
        name == current || *name == update.metadata.name || pods.iter().any(|pod| revision_of(pod) == name)
    };
    let excess = excess_revisions(inputs, is_used, set.spec.revision_history_limit);
    if let Some(step) = excess {
        return Decision::step(step);
    }
    let current = inputs
        .revisions
        .iter()
        .find(|revision| revision.metadata.name == current);
    let rollout = Rollout {
        inputs,
        pods: pods
            .iter()
            .filter_map(|pod| Some((ordinal_of(set, pod)?, *pod)))
            .collect(),
        update,
        current: current.copied().unwrap_or(update),
    };
    rollout.next()
}

/// The Pods of a StatefulSet by their numbers, and its revisions.
struct Rollout<'a> {
    inputs: &'a Inputs<'a, StatefulSet>,
    pods: BTreeMap<i64, &'a ReplicaPod>,
    update: &'a ControllerRevision,
    current: &'a ControllerRevision,
}

impl Rollout<'_> {
    fn next(&self) -> Decision {
        let mut changes = PodChanges::default();
        let is_blocked = self.replace(&mut changes) || self.shrink(&mut changes);
        changes.delete.truncate(BURST);
        if let Some(step) = changes.into_step() {
            return Decision::step(step);
        }
        if !is_blocked && let Some(step) = self.update_one() {
            return Decision::step(step);
        }
        Decision::wait(self.requeue_after())
    }

    /// Creates missing Pods and deletes those that ended, in ascending order. Returns true if an ordered StatefulSet
    /// has to wait for a Pod.
    fn replace(&self, changes: &mut PodChanges) -> bool {
        let set = self.inputs.workload;
        let first = first_ordinal(set);
        let templates = [&self.update.data, &self.current.data];
        let created_max = templates.map(|template| pods_at_once(BURST, template));
        let created_max = created_max.into_iter().min().unwrap_or(1);
        for ordinal in first..first.saturating_add(set.spec.replicas) {
            let is_enough = changes.create.len() >= created_max || changes.delete.len() >= BURST;
            if is_enough || (self.is_ordered() && !(changes.create.is_empty() && changes.delete.is_empty())) {
                return true;
            }
            match self.pods.get(&ordinal) {
                None => changes
                    .create
                    .push(pod_of(set, ordinal, self.revision_for(ordinal))),
                Some(pod) if pod.is_finished() && pod.metadata.deletion_timestamp.is_none() => {
                    if self.replacement_pause(pod).is_none() {
                        changes.delete.push(pod.metadata.clone());
                    } else if self.is_ordered() {
                        return true;
                    }
                }
                Some(pod) if self.is_ordered() && !self.is_healthy(pod) => return true,
                Some(_) => {}
            }
        }
        self.is_ordered() && !(changes.create.is_empty() && changes.delete.is_empty())
    }

    /// Deletes Pods that are no longer desired, in descending order. Returns true if an ordered StatefulSet has to
    /// wait for a Pod.
    fn shrink(&self, changes: &mut PodChanges) -> bool {
        let condemned = self.condemned();
        let first_unhealthy = self.pods.values().find(|pod| !self.is_healthy(pod));
        for pod in condemned.into_iter().rev() {
            if pod.metadata.deletion_timestamp.is_some() {
                if self.is_ordered() {
                    return true;
                }
                continue;
            }
            let is_first = first_unhealthy.is_some_and(|first| first.metadata.uid == pod.metadata.uid);
            if self.is_ordered() && !self.is_healthy(pod) && !is_first && !pod.is_finished() {
                return true;
            }
            changes.delete.push(pod.metadata.clone());
            if self.is_ordered() {
                return true;
            }
        }
        false
    }

    /// Returns the deletion of the Pod with the highest number that a rolling update replaces. Each updated Pod has
    /// to be available before the next one is replaced.
    fn update_one(&self) -> Option<Step> {
        let set = self.inputs.workload;
        if set.spec.update_strategy.kind != "RollingUpdate" {
            return None;
        }
        let first = first_ordinal(set);
        let targets = self.first_updated()..first.saturating_add(set.spec.replicas);
        if targets.is_empty() {
            return None;
        }
        for (_, pod) in self.pods.range(targets).rev() {
            let is_old = revision_of(pod) != self.update.metadata.name;
            if is_old && pod.metadata.deletion_timestamp.is_none() {
                let delete = vec![pod.metadata.clone()];
                return PodChanges {
                    delete,
                    ..PodChanges::default()
                }
                .into_step();
            }
            if !self.is_healthy(pod) {
                return None;
            }
        }
        None
    }

    /// Returns the lowest ordinal that a rolling update replaces: as upstream, the partition counts from the first one.
    fn first_updated(&self) -> i64 {
        let set = self.inputs.workload;
        first_ordinal(set).saturating_add(set.spec.update_strategy.rolling_update.partition)
    }

    fn is_ordered(&self) -> bool {
        self.inputs.workload.spec.pod_management_policy != "Parallel"
    }

    /// Returns true if the Pod is available and is not being deleted.
    fn is_healthy(&self, pod: &ReplicaPod) -> bool {
        let wait = pod.available_in(self.inputs.workload.spec.min_ready_seconds, self.inputs.now);
        is_running(pod)
            && pod.metadata.deletion_timestamp.is_none()
            && wait.is_some_and(|wait| wait.is_zero())
    }

    /// Returns the revision for a new Pod: below the partition, the revision before the rollout.
    fn revision_for(&self, ordinal: i64) -> &ControllerRevision {
        let strategy = &self.inputs.workload.spec.update_strategy;
        if strategy.kind == "RollingUpdate" && ordinal < self.first_updated() {
            self.current
        } else {
            self.update
        }
    }

    /// Returns the Pods outside of the desired numbers in ascending order.
    fn condemned(&self) -> Vec<&ReplicaPod> {
        let set = self.inputs.workload;
        let first = first_ordinal(set);
        let desired = first..first.saturating_add(set.spec.replicas);
        let pods = self.pods.iter().filter(|(ordinal, _)| !desired.contains(ordinal));
        pods.map(|(_, pod)| *pod).collect()
    }

    /// Returns the delay until a Pod that ended may be replaced.
    fn replacement_pause(&self, pod: &ReplicaPod) -> Option<Duration> {
        let age = self.inputs.now.duration_since(pod.created()?);
        let age = Duration::try_from(age).unwrap_or_default();
        REPLACEMENT_PAUSE
            .checked_sub(age)
            .filter(|pause| !pause.is_zero())
    }

    fn requeue_after(&self) -> Option<Duration> {
        let seconds = self.inputs.workload.spec.min_ready_seconds;
        let available = next_available(self.pods.values().copied(), seconds, self.inputs.now);
        let ended = self.pods.values().filter(|pod| pod.is_finished());
        ended
            .filter_map(|pod| self.replacement_pause(pod))
            .chain(available)
            .min()
    }
}
