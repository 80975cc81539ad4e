//! The garbage collector. It deletes objects whose owners are deleted, and finishes foreground and orphan
//! deletions.
//!
//! [`kinds`] lists the kinds, [`graph`] tracks owners and dependents, [`decide`] computes the action. The
//! graph only selects candidates. Before a write the object, and every owner that is not known to exist, is
//! read from the server.

pub(crate) mod decide;
pub(crate) mod graph;
pub(crate) mod kinds;
mod work;

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Instant;

use client::Event;
use reconcile::queue::Queue;
use reconcile::{Action, Reconciler, watches};

use crate::environment::Environment;
use crate::selection::Controller;

use graph::{Candidate, Graph};
use kinds::{Change, Kind, ObjectLocation};

/// Collects garbage until `shutdown` resolves, then waits for writes in progress.
pub(crate) async fn run(environment: Environment, shutdown: impl Future<Output = ()>) {
    let (sender, changes) = watches::channel();
    kinds::watch_all(&environment, &sender);
    drop(sender);
    let queue_metrics = environment
        .metrics
        .register_queue(Controller::GarbageCollector.queue_name());
    let client = environment.client;
    let run_job = |location: ObjectLocation, candidate: Candidate| {
        let client = client.clone();
        async move { work::collect(&client, &location, &candidate).await }
    };
    reconcile::run(
        GarbageCollector::default(),
        changes,
        queue_metrics,
        run_job,
        shutdown,
    )
    .await;
}

/// Selects the candidates from watch events.
#[derive(Debug, Default)]
struct GarbageCollector {
    /// The kinds whose initial list is complete.
    synced: BTreeSet<Kind>,
    graph: Graph,
}

impl Reconciler for GarbageCollector {
    type Change = Change;
    type Key = ObjectLocation;
    type Job = Candidate;
    type Output = ();
    /// Maximum number of concurrent jobs: the default of upstream's `--concurrent-gc-syncs`.
    const CONCURRENT_JOBS_MAX: usize = 20;
    /// Each of the thousands of owners that an object can name is read.
    const TENANT_JOBS_MAX: usize = Self::CONCURRENT_JOBS_MAX / 2;

    fn tenant(location: &ObjectLocation) -> &str {
        &location.key.namespace
    }

    fn apply_change(
        &mut self,
        Change { kind, event }: Change,
        queue: &mut Queue<ObjectLocation>,
        now: Instant,
    ) {
        let affected = match event {
            Event::Applied(meta) => self.graph.apply(&ObjectLocation::new(kind, meta.key()), &meta),
            Event::Deleted(key) => self.graph.remove(&ObjectLocation::new(kind, key)),
            Event::Synced => {
                self.synced.insert(kind);
                // No watch reports an owner that was created and deleted between two lists.
                self.graph.open_candidates().into_iter().collect()
            }
            Event::Malformed { key, error } => {
                return tracing::error!(?kind, %key, error, "malformed object skipped");
            }
        };
        for location in affected {
            queue.add(location, now);
        }
    }

    fn is_synced(&self) -> bool {
        // Kinds that a foreign cluster may lack are not awaited; their objects are read from the server
        // before every write.
        Kind::ALL
            .iter()
            .filter(|kind| kind.is_everywhere())
            .all(|kind| self.synced.contains(kind))
    }

    fn reconcile(&mut self, location: &ObjectLocation, _: Instant) -> Action<Candidate> {
        let candidate = self
            .graph
            .candidate(location)
            .filter(|candidate| candidate.needs_work());
        candidate.map_or(Action::Done, Action::Run)
    }

    fn on_success(&mut self, _: &ObjectLocation, (): (), _: &mut Queue<ObjectLocation>, _: Instant) {}
}

#[cfg(test)]
mod tests;
