//! ReplicaSets and Pods in; steps out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;

use api::object::{ObjectKey, ReplicaSet, Resource};
use client::{Event, WallClock};

use super::pod::ReplicaPod;
use super::reconcile::{Inputs, reconcile};
use super::write::{Answer, Job};
use crate::keeper::{Keeper, Look};
use crate::owned::{Concerned, Owned, read_selector, selects};
use crate::queue::Queue;

/// Something that arrived; a complete list comes with its revision.
pub(super) enum Change {
    Set(Event<ReplicaSet>, u64),
    Pod(Event<ReplicaPod>, u64),
}

/// The state of the controller.
pub(super) struct ReplicaSets {
    clock: WallClock,
    are_sets_synced: bool,
    are_pods_synced: bool,
    /// By the Deployments that own them.
    sets: Owned<ReplicaSet>,
    keys: BTreeMap<String, ObjectKey>,
    pods: Owned<ReplicaPod>,
    /// ReplicaSets of which it is open what the last job on them did.
    doubtful: HashSet<ObjectKey>,
}

impl ReplicaSets {
    pub(super) fn new(clock: WallClock) -> Self {
        Self {
            clock,
            are_sets_synced: false,
            are_pods_synced: false,
            sets: Owned::default(),
            keys: BTreeMap::new(),
            pods: Owned::default(),
            doubtful: HashSet::new(),
        }
    }

    fn take_set(
        &mut self,
        event: Event<ReplicaSet>,
        revision: u64,
        queue: &mut Queue<ObjectKey>,
        now: Instant,
    ) {
        match event {
            Event::Applied(set) => {
                let key = set.metadata.key();
                self.keys.insert(set.metadata.uid.clone(), key.clone());
                self.sets.apply(set);
                queue.add(key, now);
            }
            Event::Deleted(key) => {
                self.sets.remove(&key);
                self.forget(&key);
            }
            Event::Synced => {
                self.are_sets_synced = true;
                self.sets.listed(revision);
                // Their jobs under way may have been answered before the list was, or not.
                self.doubtful.extend(queue.under_way().cloned());
            }
            Event::Malformed { key, error } => {
                tracing::error!(kind = "ReplicaSet", %key, error, "the object cannot be read and is skipped");
            }
        }
    }

    fn take_pod(
        &mut self,
        event: Event<ReplicaPod>,
        revision: u64,
        queue: &mut Queue<ObjectKey>,
        now: Instant,
    ) {
        let concerned = match event {
            Event::Applied(pod) => vec![self.pods.apply(pod)],
            Event::Deleted(key) => vec![self.pods.remove(&key)],
            Event::Synced => {
                self.are_pods_synced = true;
                self.doubtful.extend(queue.under_way().cloned());
                self.pods.listed(revision)
            }
            Event::Malformed { key, error } => {
                tracing::error!(kind = "Pod", %key, error, "the object cannot be read and is skipped");
                Vec::new()
            }
        };
        for concerned in concerned {
            self.look_at(&concerned, queue, now);
        }
    }

    fn look_at(&self, concerned: &Concerned, queue: &mut Queue<ObjectKey>, now: Instant) {
        let keys = concerned.owners.iter().filter_map(|owner| self.keys.get(owner));
        for key in keys {
            queue.add(key.clone(), now);
        }
        let Some((pod, labels)) = &concerned.orphan else {
            return;
        };
        for (key, set) in self.sets.in_namespace(&pod.namespace) {
            if read_selector(&set.spec.selector).is_some_and(|selector| selects(&selector, labels)) {
                queue.add(key.clone(), now);
            }
        }
    }

    /// The ReplicaSet of a key is gone. The UIDs of those that went while nobody told are few, and cost nothing else.
    fn forget(&mut self, key: &ObjectKey) {
        if self.sets.get(key).is_none() {
            self.keys.retain(|_, known| known != key);
            self.doubtful.remove(key);
        }
    }

    /// The Pods of a ReplicaSet, and those that it may take.
    fn pods_of(&self, set: &ReplicaSet) -> Vec<&ReplicaPod> {
        let mut pods: Vec<&ReplicaPod> = self.pods.of(&set.metadata.uid).collect();
        if let Some(selector) = read_selector(&set.spec.selector) {
            pods.extend(self.pods.orphans(&set.metadata.namespace, &selector));
        }
        pods
    }

    /// The active Pods of all ReplicaSets with the same owner, by Node, if the ReplicaSet has Pods to choose from that
    /// are to go; nobody asks otherwise, and there may be many.
    fn siblings(&self, set: &ReplicaSet) -> HashMap<String, usize> {
        let own = self.pods.of(&set.metadata.uid).filter(|pod| pod.is_active());
        if own.count() <= usize::try_from(set.spec.replicas).unwrap_or(0) {
            return HashMap::new();
        }
        let sets: Vec<&ReplicaSet> = match set.metadata.controller() {
            Some(owner) => self.sets.of(&owner.uid).collect(),
            None => vec![set],
        };
        let mut by_node = HashMap::new();
        let pods = sets.iter().flat_map(|set| self.pods.of(&set.metadata.uid));
        for pod in pods.filter(|pod| pod.is_active()) {
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
            Change::Set(event, revision) => self.take_set(event, revision, queue, now),
            Change::Pod(event, revision) => self.take_pod(event, revision, queue, now),
        }
    }

    fn is_synced(&self) -> bool {
        self.are_sets_synced && self.are_pods_synced
    }

    fn next_turn(&self) -> Option<Instant> {
        None
    }

    fn turn(&mut self, _: &mut Queue<ObjectKey>, _: Instant) {}

    fn look(&mut self, key: &ObjectKey, _: Instant) -> Look<Job> {
        let Some(set) = self.sets.get(key) else {
            return Look::Fine;
        };
        let (pods, siblings) = (self.pods_of(set), self.siblings(set));
        let outcome = reconcile(&Inputs {
            set,
            pods: &pods,
            siblings: &siblings,
            now: self.clock.now(),
        });
        let is_doubtful = self.doubtful.contains(key);
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
        self.doubtful.insert(key.clone());
    }

    fn answered(&mut self, key: &ObjectKey, answer: Answer, queue: &mut Queue<ObjectKey>, now: Instant) {
        if answer.is_gone {
            if let Some(set) = self.sets.get(key) {
                let meta = set.metadata().clone();
                self.sets.deleted(&meta);
            }
            self.forget(key);
        }
        if let Some(set) = answer.set {
            self.sets.answered(*set);
        }
        if let Some(listed) = answer.listed
            && let Some(set) = self.sets.get(key)
        {
            let selector = read_selector(&set.spec.selector).unwrap_or_default();
            self.pods.answered_all(&set.metadata.uid, &selector, listed);
            self.doubtful.remove(key);
        }
        for pod in answer.pods {
            self.pods.answered(pod);
        }
        for meta in answer.gone {
            self.pods.deleted(&meta);
        }
        queue.add(key.clone(), now);
    }
}
