//! ReplicaSets and Pods in; steps out.

use std::collections::HashMap;
use std::time::Instant;

use api::object::{ObjectKey, ReplicaSet};
use client::{Event, WallClock};

use super::pod::ReplicaPod;
use super::reconcile::{Inputs, reconcile};
use super::write::{Answer, Job};
use crate::keeper::{Keeper, Look};
use crate::owners::Owners;
use crate::queue::Queue;

/// Something that arrived; a complete list comes with its revision.
pub(super) enum Change {
    Set(Event<ReplicaSet>, u64),
    Pod(Event<ReplicaPod>, u64),
}

/// The state of the controller.
pub(super) struct ReplicaSets {
    clock: WallClock,
    owners: Owners<ReplicaSet, ReplicaPod>,
}

impl ReplicaSets {
    pub(super) fn new(clock: WallClock) -> Self {
        Self {
            clock,
            owners: Owners::new(|set| &set.spec.selector),
        }
    }

    /// The active Pods of all ReplicaSets with the same owner, by Node, if the ReplicaSet has Pods to choose from that
    /// are to go; nobody asks otherwise, and there may be many.
    fn siblings(&self, set: &ReplicaSet) -> HashMap<String, usize> {
        let Owners {
            objects: sets,
            owned: pods,
            ..
        } = &self.owners;
        let own = pods.of(&set.metadata.uid).filter(|pod| pod.is_active());
        if own.count() <= usize::try_from(set.spec.replicas).unwrap_or(0) {
            return HashMap::new();
        }
        let siblings: Vec<&ReplicaSet> = match set.metadata.controller() {
            Some(owner) => sets.of(&owner.uid).collect(),
            None => vec![set],
        };
        let mut by_node = HashMap::new();
        let all = siblings.iter().flat_map(|set| pods.of(&set.metadata.uid));
        for pod in all.filter(|pod| pod.is_active()) {
            *by_node.entry(pod.spec.node_name.clone()).or_insert(0) += 1;
        }
        by_node
    }
}

impl Keeper for ReplicaSets {
    type Change = Change;
    type Key = ObjectKey;
    type Job = Job;
    type Answer = Answer;
    /// As many as upstream's workers (`--concurrent-replicaset-syncs`).
    const JOBS_MAX: usize = 5;

    fn take(&mut self, change: Change, queue: &mut Queue<ObjectKey>, now: Instant) {
        match change {
            Change::Set(event, revision) => self.owners.take(event, revision, queue, now),
            Change::Pod(event, revision) => self.owners.take_owned(event, revision, queue, now),
        }
    }

    fn is_synced(&self) -> bool {
        self.owners.are_synced()
    }

    fn look(&mut self, key: &ObjectKey, _: Instant) -> Look<Job> {
        let Some(set) = self.owners.objects.get(key) else {
            return Look::Fine;
        };
        let (pods, siblings) = (self.owners.owned_by(set), self.siblings(set));
        let outcome = reconcile(&Inputs {
            set,
            pods: &pods,
            siblings: &siblings,
            now: self.clock.now(),
        });
        let is_doubtful = self.owners.is_doubtful(key);
        match (outcome.step, outcome.again_after) {
            (None, Some(pause)) if !is_doubtful => Look::Again(pause),
            (None, None) if !is_doubtful => Look::Fine,
            (step, _) => Look::Do(Job {
                set: set.clone(),
                pods: pods.into_iter().cloned().collect(),
                siblings,
                step: step.filter(|_| !is_doubtful),
            }),
        }
    }

    fn failed(&mut self, key: &ObjectKey) {
        self.owners.doubt(key);
    }

    fn answered(&mut self, key: &ObjectKey, answer: Answer, queue: &mut Queue<ObjectKey>, now: Instant) {
        self.owners.answered(key, answer);
        queue.add(key.clone(), now);
    }
}
