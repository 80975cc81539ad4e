//! State machine of the Deployment controller. Inputs are Deployments and ReplicaSets; outputs are steps.

use std::collections::HashMap;
use std::time::Instant;

use api::object::{Deployment, ObjectKey, ReplicaSet};
use client::{Event, WallClock};
use reconcile::queue::Queue;
use reconcile::{Action, Reconciler};

use super::reconcile::{Inputs, OldPodsState, reconcile};
use super::write::{Job, JobOutput};
use crate::owner_cache::OwnerCache;

/// A change that a watch reports, with the revision of its list.
#[expect(clippy::large_enum_variant, reason = "each change is handled at once")]
pub(super) enum Change {
    Deployment(Event<Deployment>, u64),
    Set(Event<ReplicaSet>, u64),
}

/// Reconciles Deployments with their ReplicaSets.
pub(super) struct DeploymentController {
    clock: WallClock,
    owners: OwnerCache<Deployment, ReplicaSet>,
    /// Result of the last list of old Pods, with the generation of the Deployment for which it holds.
    old_pods: HashMap<ObjectKey, (i64, OldPodsState)>,
}

impl DeploymentController {
    pub(super) fn new(clock: WallClock) -> Self {
        Self {
            clock,
            owners: OwnerCache::new(|deployment| &deployment.spec.selector),
            old_pods: HashMap::new(),
        }
    }
}

impl Reconciler for DeploymentController {
    type Change = Change;
    type Key = ObjectKey;
    type Job = Job;
    type Output = JobOutput;
    /// Maximum number of concurrent jobs: upstream's number of workers (`--concurrent-deployment-syncs`).
    const CONCURRENT_JOBS_MAX: usize = 5;

    fn tenant(key: &ObjectKey) -> &str {
        &key.namespace
    }

    fn apply_change(&mut self, change: Change, queue: &mut Queue<ObjectKey>, now: Instant) {
        match change {
            Change::Deployment(event, revision) => {
                let may_be_gone = !matches!(event, Event::Applied(_));
                self.owners.apply_owner_event(event, revision, queue, now);
                if may_be_gone {
                    let deployments = &self.owners.objects;
                    self.old_pods.retain(|key, _| deployments.get(key).is_some());
                }
            }
            Change::Set(event, revision) => self.owners.apply_owned_event(event, revision, queue, now),
        }
    }

    fn is_synced(&self) -> bool {
        self.owners.are_synced()
    }

    fn reconcile(&mut self, key: &ObjectKey, _: Instant) -> Action<Job> {
        let Some(deployment) = self.owners.objects.get(key) else {
            return Action::Done;
        };
        let generation = deployment.metadata.generation;
        let update = self.old_pods.get(key).filter(|(of, _)| *of == generation);
        let old_pods = update.map_or(OldPodsState::Unknown, |(_, update)| *update);
        if old_pods == OldPodsState::Running {
            // The result serves one reconciliation. The next one lists the Pods again.
            self.old_pods.remove(key);
        }
        let decision = reconcile(&Inputs {
            deployment,
            sets: &self.owners.owned_by(deployment),
            old_pods,
            now: self.clock.now(),
        });
        let needs_refresh = self.owners.needs_refresh(key);
        match (decision.step, decision.requeue_after) {
            (None, Some(pause)) if !needs_refresh => Action::RequeueAfter(pause),
            (None, None) if !needs_refresh => Action::Done,
            (step, _) => Action::Run(Job {
                deployment: deployment.clone(),
                old_pods,
                step: step.filter(|_| !needs_refresh),
            }),
        }
    }

    fn on_failure(&mut self, key: &ObjectKey) {
        self.owners.mark_for_refresh(key);
    }

    fn on_success(&mut self, key: &ObjectKey, output: JobOutput, queue: &mut Queue<ObjectKey>, now: Instant) {
        if output.server_state.is_deleted {
            self.old_pods.remove(key);
        }
        self.owners.apply_response(key, output.server_state);
        if let Some(update) = output.old_pods {
            self.old_pods.insert(key.clone(), update);
        }
        queue.add(key.clone(), now);
    }
}
