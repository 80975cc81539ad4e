//! The garbage collector: objects go when all their owners are gone, and an owner whose deletion says so
//! goes after its dependents, or without them.
//!
//! [`kinds`] says which kinds take part, [`graph`] keeps who depends on whom, [`judge`] what is to be done.
//! The graph only says where to look: nothing is written before the object, and every owner that is not
//! known to be there, has been read from the server.

pub mod graph;
pub mod judge;
pub mod kinds;
mod work;

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Instant;

use client::Event;

use crate::keeper::{self, Keeper, Look};
use crate::queue::Queue;
use crate::run::Environment;
use crate::selection::Controller;

use graph::{Case, Graph};
use kinds::{Change, Kind, Place};

/// Collects until `shutdown` resolves; writes under way are finished first.
pub async fn run(environment: Environment, shutdown: impl Future<Output = ()>) {
    let (sender, changes) = keeper::changes();
    kinds::watch_all(&environment, &sender);
    drop(sender);
    let meter = environment
        .metrics
        .queue(Controller::GarbageCollector.queue_name());
    let client = environment.client;
    let carry_out = |place: Place, case: Case| {
        let client = client.clone();
        async move { work::look(&client, &place, &case).await }
    };
    keeper::run(Collector::default(), changes, meter, carry_out, shutdown).await;
}

/// The state of the controller.
#[derive(Debug, Default)]
struct Collector {
    /// The kinds of which everything that was there at one moment has been told.
    synced: BTreeSet<Kind>,
    graph: Graph,
}

impl Keeper for Collector {
    type Change = Change;
    type Key = Place;
    type Job = Case;
    type Answer = ();
    /// As many as upstream's `--concurrent-gc-syncs`.
    const JOBS_MAX: usize = 20;

    fn take(&mut self, Change { kind, event }: Change, queue: &mut Queue<Place>, now: Instant) {
        let looks = match event {
            Event::Applied(meta) => self.graph.apply(&Place::new(kind, meta.key()), &meta),
            Event::Deleted(key) => self.graph.remove(&Place::new(kind, key)),
            Event::Synced => {
                self.synced.insert(kind);
                // An owner that came and went between two lists was never told of.
                self.graph.open_cases().into_iter().collect()
            }
            Event::Malformed { key, error } => {
                return tracing::error!(?kind, %key, error, "the object cannot be read and is skipped");
            }
        };
        for place in looks {
            queue.add(place, now);
        }
    }

    fn is_synced(&self) -> bool {
        // Of the other kinds an owner or dependent is read from the server before anything is done, as of all.
        Kind::ALL
            .iter()
            .filter(|kind| kind.is_everywhere())
            .all(|kind| self.synced.contains(kind))
    }

    fn look(&mut self, place: &Place, _: Instant) -> Look<Case> {
        let case = self.graph.case(place).filter(|case| case.is_open());
        case.map_or(Look::Fine, Look::Do)
    }

    fn answered(&mut self, _: &Place, (): (), _: &mut Queue<Place>, _: Instant) {}
}

#[cfg(test)]
mod tests;
