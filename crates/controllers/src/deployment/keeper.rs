//! Deployments and ReplicaSets in; steps out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;

use api::object::{Deployment, ObjectKey, ReplicaSet};
use client::{Event, WallClock};

use super::reconcile::{Inputs, OldPods, reconcile};
use super::write::{Answer, Job};
use crate::keeper::{Keeper, Look};
use crate::owned::{Concerned, Owned, read_selector, selects};
use crate::queue::Queue;
use crate::world::ByKey;

/// Something that arrived; a complete list comes with its revision.
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time is on its way from a channel to the caches"
)]
pub(super) enum Change {
    Deployment(Event<Deployment>, u64),
    Set(Event<ReplicaSet>, u64),
}

/// The state of the controller.
pub(super) struct Deployments {
    clock: WallClock,
    are_deployments_synced: bool,
    are_sets_synced: bool,
    deployments: ByKey<Deployment>,
    keys: BTreeMap<String, ObjectKey>,
    sets: Owned<ReplicaSet>,
    /// What the server said of Pods of old templates, and of which generation of the Deployment that is true.
    old_pods: HashMap<ObjectKey, (i64, OldPods)>,
    /// Deployments of which it is open what the last job on them did.
    doubtful: HashSet<ObjectKey>,
}

impl Deployments {
    pub(super) fn new(clock: WallClock) -> Self {
        Self {
            clock,
            are_deployments_synced: false,
            are_sets_synced: false,
            deployments: ByKey::default(),
            keys: BTreeMap::new(),
            sets: Owned::default(),
            old_pods: HashMap::new(),
            doubtful: HashSet::new(),
        }
    }

    fn take_deployment(
        &mut self,
        event: Event<Deployment>,
        revision: u64,
        queue: &mut Queue<ObjectKey>,
        now: Instant,
    ) {
        match event {
            Event::Applied(deployment) => {
                let key = deployment.metadata.key();
                self.keys.insert(deployment.metadata.uid.clone(), key.clone());
                self.deployments.apply(deployment);
                queue.add(key, now);
            }
            Event::Deleted(key) => {
                self.deployments.remove(&key);
                self.forget(&key);
            }
            Event::Synced => {
                self.are_deployments_synced = true;
                for key in self.deployments.listed(revision) {
                    self.forget(&key);
                }
                // Their jobs under way may have been answered before the list was, or not.
                self.doubtful.extend(queue.under_way().cloned());
            }
            Event::Malformed { key, error } => {
                tracing::error!(kind = "Deployment", %key, error, "the object cannot be read and is skipped");
            }
        }
    }

    fn take_set(
        &mut self,
        event: Event<ReplicaSet>,
        revision: u64,
        queue: &mut Queue<ObjectKey>,
        now: Instant,
    ) {
        let concerned = match event {
            Event::Applied(set) => vec![self.sets.apply(set)],
            Event::Deleted(key) => vec![self.sets.remove(&key)],
            Event::Synced => {
                self.are_sets_synced = true;
                self.doubtful.extend(queue.under_way().cloned());
                self.sets.listed(revision)
            }
            Event::Malformed { key, error } => {
                tracing::error!(kind = "ReplicaSet", %key, error, "the object cannot be read and is skipped");
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
        let Some((set, labels)) = &concerned.orphan else {
            return;
        };
        for (key, deployment) in self.deployments.in_namespace(&set.namespace) {
            if read_selector(&deployment.spec.selector).is_some_and(|selector| selects(&selector, labels)) {
                queue.add(key.clone(), now);
            }
        }
    }

    /// The Deployment of a key is gone.
    fn forget(&mut self, key: &ObjectKey) {
        if self.deployments.get(key).is_none() {
            self.keys.retain(|_, known| known != key);
            self.doubtful.remove(key);
            self.old_pods.remove(key);
        }
    }

    /// The ReplicaSets of a Deployment, and those that it may take.
    fn sets_of(&self, deployment: &Deployment) -> Vec<&ReplicaSet> {
        let mut sets: Vec<&ReplicaSet> = self.sets.of(&deployment.metadata.uid).collect();
        if let Some(selector) = read_selector(&deployment.spec.selector) {
            sets.extend(self.sets.orphans(&deployment.metadata.namespace, &selector));
        }
        sets
    }
}

impl Keeper for Deployments {
    type Change = Change;
    type Key = ObjectKey;
    type Job = Job;
    type Answer = Answer;
    /// As many as upstream's workers (`--concurrent-deployment-syncs`).
    const JOBS_MAX: usize = 5;

    fn take(&mut self, change: Change, queue: &mut Queue<ObjectKey>, now: Instant) {
        match change {
            Change::Deployment(event, revision) => self.take_deployment(event, revision, queue, now),
            Change::Set(event, revision) => self.take_set(event, revision, queue, now),
        }
    }

    fn is_synced(&self) -> bool {
        self.are_deployments_synced && self.are_sets_synced
    }

    fn next_turn(&self) -> Option<Instant> {
        None
    }

    fn turn(&mut self, _: &mut Queue<ObjectKey>, _: Instant) {}

    fn look(&mut self, key: &ObjectKey, _: Instant) -> Look<Job> {
        let Some(deployment) = self.deployments.get(key) else {
            return Look::Fine;
        };
        let generation = deployment.metadata.generation;
        let said = self.old_pods.get(key).filter(|(of, _)| *of == generation);
        let old_pods = said.map_or(OldPods::Unknown, |(_, said)| *said);
        if old_pods == OldPods::Running {
            // True when it was said: the next look asks again.
            self.old_pods.remove(key);
        }
        let outcome = reconcile(&Inputs {
            deployment,
            sets: &self.sets_of(deployment),
            old_pods,
            now: self.clock.now(),
        });
        let is_doubtful = self.doubtful.contains(key);
        match (outcome.step, outcome.again_after) {
            (None, Some(pause)) if !is_doubtful => Look::Again(pause),
            (None, None) if !is_doubtful => Look::Fine,
            (step, _) => Look::Do(Job {
                deployment: deployment.clone(),
                old_pods,
                step: step.filter(|_| !is_doubtful),
            }),
        }
    }

    fn failed(&mut self, key: &ObjectKey) {
        self.doubtful.insert(key.clone());
    }

    fn answered(&mut self, key: &ObjectKey, answer: Answer, queue: &mut Queue<ObjectKey>, now: Instant) {
        if answer.is_gone {
            if let Some(deployment) = self.deployments.get(key) {
                let meta = deployment.metadata.clone();
                self.deployments.deleted(&meta);
            }
            self.forget(key);
        }
        if let Some(deployment) = answer.deployment {
            self.deployments.answered(*deployment);
        }
        if let Some(listed) = answer.listed
            && let Some(deployment) = self.deployments.get(key)
        {
            let selector = read_selector(&deployment.spec.selector).unwrap_or_default();
            self.sets
                .answered_all(&deployment.metadata.uid, &selector, listed);
            self.doubtful.remove(key);
        }
        for set in answer.sets {
            self.sets.answered(set);
        }
        for meta in answer.gone {
            self.sets.deleted(&meta);
        }
        if let Some(said) = answer.old_pods {
            self.old_pods.insert(key.clone(), said);
        }
        queue.add(key.clone(), now);
    }
}
