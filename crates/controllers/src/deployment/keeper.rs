//! Deployments and ReplicaSets in; steps out.

use std::collections::HashMap;
use std::time::Instant;

use api::object::{Deployment, ObjectKey, ReplicaSet};
use client::{Event, WallClock};

use super::reconcile::{Inputs, OldPods, reconcile};
use super::write::{Answer, Job};
use crate::keeper::{Keeper, Look};
use crate::owners::Owners;
use crate::queue::Queue;

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
    owners: Owners<Deployment, ReplicaSet>,
    /// What the server said of Pods of old templates, and of which generation of the Deployment that is true.
    old_pods: HashMap<ObjectKey, (i64, OldPods)>,
}

impl Deployments {
    pub(super) fn new(clock: WallClock) -> Self {
        Self {
            clock,
            owners: Owners::new(|deployment| &deployment.spec.selector),
            old_pods: HashMap::new(),
        }
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
            Change::Deployment(event, revision) => {
                let may_be_gone = !matches!(event, Event::Applied(_));
                self.owners.take(event, revision, queue, now);
                if may_be_gone {
                    let deployments = &self.owners.objects;
                    self.old_pods.retain(|key, _| deployments.get(key).is_some());
                }
            }
            Change::Set(event, revision) => self.owners.take_owned(event, revision, queue, now),
        }
    }

    fn is_synced(&self) -> bool {
        self.owners.are_synced()
    }

    fn look(&mut self, key: &ObjectKey, _: Instant) -> Look<Job> {
        let Some(deployment) = self.owners.objects.get(key) else {
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
            sets: &self.owners.owned_by(deployment),
            old_pods,
            now: self.clock.now(),
        });
        let is_doubtful = self.owners.is_doubtful(key);
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
        self.owners.doubt(key);
    }

    fn answered(&mut self, key: &ObjectKey, answer: Answer, queue: &mut Queue<ObjectKey>, now: Instant) {
        if answer.said.is_gone {
            self.old_pods.remove(key);
        }
        self.owners.answered(key, answer.said);
        if let Some(said) = answer.old_pods {
            self.old_pods.insert(key.clone(), said);
        }
        queue.add(key.clone(), now);
    }
}
