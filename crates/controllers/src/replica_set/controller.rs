//! State machine of the ReplicaSet controller. Inputs are ReplicaSets and Pods; outputs are steps.

use std::collections::HashMap;
use std::time::Instant;

use api::object::{ObjectKey, ReplicaSet};
use client::{Event, WallClock};
use reconcile::queue::Queue;
use reconcile::{Action, Reconciler};

use super::pod::ReplicaPod;
use super::reconcile::{Inputs, reconcile};
use super::write::{Job, JobOutput};
use crate::owner_cache::OwnerCache;

/// A change that a watch reports, with the revision of its list.
pub(super) enum Change {
    Set(Event<ReplicaSet>, u64),
    Pod(Event<ReplicaPod>, u64),
}

/// Reconciles ReplicaSets with their Pods.
pub(super) struct ReplicaSetController {
    clock: WallClock,
    owners: OwnerCache<ReplicaSet, ReplicaPod>,
}

impl ReplicaSetController {
    pub(super) fn new(clock: WallClock) -> Self {
        Self {
            clock,
            owners: OwnerCache::new(|set| &set.spec.selector),
        }
    }

    /// Counts the active Pods of all ReplicaSets with the same owner by Node. The result is empty if no Pod
    /// is to be deleted, which saves the scan.
    fn siblings(&self, set: &ReplicaSet) -> HashMap<String, usize> {
        let OwnerCache {
            objects: sets,
            owned: pods,
            ..
        } = &self.owners;
        let namespace = &set.metadata.namespace;
        let own = pods
            .of(namespace, &set.metadata.uid)
            .filter(|pod| pod.is_active());
        if own.count() <= usize::try_from(set.spec.replicas).unwrap_or(0) {
            return HashMap::new();
        }
        let siblings: Vec<&ReplicaSet> = match set.metadata.controller() {
            Some(owner) => sets.of(namespace, &owner.uid).collect(),
            None => vec![set],
        };
        let mut by_node = HashMap::new();
        let all = siblings
            .iter()
            .flat_map(|set| pods.of(namespace, &set.metadata.uid));
        for pod in all.filter(|pod| pod.is_active()) {
            *by_node.entry(pod.spec.node_name.clone()).or_insert(0) += 1;
        }
        by_node
    }
}

impl Reconciler for ReplicaSetController {
    type Change = Change;
    type Key = ObjectKey;
    type Job = Job;
    type Output = JobOutput;
    /// Maximum number of concurrent jobs: upstream's number of workers (`--concurrent-replicaset-syncs`).
    const CONCURRENT_JOBS_MAX: usize = 5;

    fn tenant(key: &ObjectKey) -> &str {
        &key.namespace
    }

    fn apply_change(&mut self, change: Change, queue: &mut Queue<ObjectKey>, now: Instant) {
        match change {
            Change::Set(event, revision) => self.owners.apply_owner_event(event, revision, queue, now),
            Change::Pod(event, revision) => self.owners.apply_owned_event(event, revision, queue, now),
        }
    }

    fn is_synced(&self) -> bool {
        self.owners.are_synced()
    }

    fn reconcile(&mut self, key: &ObjectKey, _: Instant) -> Action<Job> {
        let Some(set) = self.owners.objects.get(key) else {
            return Action::Done;
        };
        let (pods, siblings) = (self.owners.owned_by(set), self.siblings(set));
        let decision = reconcile(&Inputs {
            set,
            pods: &pods,
            siblings: &siblings,
            now: self.clock.now(),
        });
        let needs_refresh = self.owners.needs_refresh(key);
        match (decision.step, decision.requeue_after) {
            (None, Some(pause)) if !needs_refresh => Action::RequeueAfter(pause),
            (None, None) if !needs_refresh => Action::Done,
            (step, _) => Action::Run(Job {
                set: set.clone(),
                pods: pods.into_iter().cloned().collect(),
                siblings,
                step: step.filter(|_| !needs_refresh),
            }),
        }
    }

    fn on_failure(&mut self, key: &ObjectKey) {
        self.owners.mark_for_refresh(key);
    }

    fn on_success(&mut self, key: &ObjectKey, output: JobOutput, queue: &mut Queue<ObjectKey>, now: Instant) {
        self.owners.apply_response(key, output);
        queue.add(key.clone(), now);
    }
}
