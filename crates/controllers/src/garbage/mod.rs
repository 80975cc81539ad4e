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

use client::{Client, ClientError, Event};
use tokio::sync::mpsc::Receiver;
use tokio::task::{JoinError, JoinSet};

use crate::queue::{Queue, sleep_until};
use crate::run::now;

use graph::Graph;
use kinds::{Change, Kind, Place};

/// Objects that are looked at at the same time, as many as upstream's `--concurrent-gc-syncs`.
const CONCURRENT_LOOKS: usize = 20;

/// Collects until `shutdown` resolves; writes under way are finished first.
pub async fn run(client: Client, shutdown: impl Future<Output = ()>) {
    let mut collector = Collector {
        changes: kinds::watch_all(&client),
        client,
        synced: BTreeSet::new(),
        graph: Graph::default(),
        queue: Queue::default(),
        tasks: JoinSet::new(),
    };
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = collector.step() => {}
            () = &mut shutdown => break,
        }
    }
    while let Some(outcome) = collector.tasks.join_next().await {
        collector.take_outcome(outcome);
    }
}

struct Collector {
    client: Client,
    changes: Receiver<Change>,
    /// The kinds of which everything that was there at one moment has been told.
    synced: BTreeSet<Kind>,
    graph: Graph,
    queue: Queue<Place>,
    tasks: JoinSet<(Place, Result<(), ClientError>)>,
}

impl Collector {
    /// Waits for one thing to happen and takes it in, then starts the work that is due.
    async fn step(&mut self) {
        let wake = self.queue.next_wake();
        tokio::select! {
            Some(change) = self.changes.recv() => self.take(change),
            Some(outcome) = self.tasks.join_next() => self.take_outcome(outcome),
            () = sleep_until(wake) => {}
        }
        while let Ok(change) = self.changes.try_recv() {
            self.take(change);
        }
        self.queue.wake(now());
        if self.synced.len() == Kind::ALL.len() {
            self.start_work();
        }
    }

    fn take(&mut self, Change { kind, event }: Change) {
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
            self.queue.add(place, now());
        }
    }

    fn start_work(&mut self) {
        while self.tasks.len() < CONCURRENT_LOOKS {
            let Some((place, _)) = self.queue.take(now()) else {
                return;
            };
            let Some(case) = self.graph.case(&place).filter(|case| case.is_open()) else {
                self.queue.done(&place, now());
                continue;
            };
            let client = self.client.clone();
            self.tasks.spawn(async move {
                let outcome = work::look(&client, &place, &case).await;
                (place, outcome)
            });
        }
    }

    fn take_outcome(&mut self, outcome: Result<(Place, Result<(), ClientError>), JoinError>) {
        match outcome {
            Ok((place, Ok(()))) => {
                self.queue.done(&place, now());
            }
            Ok((place, Err(error))) => {
                let pause = self.queue.failed(&place, now());
                tracing::warn!(kind = ?place.kind, object = %place.key, %error, ?pause, "will be tried again");
            }
            Err(error) => tracing::error!(%error, "a look at an object failed"),
        }
    }
}
