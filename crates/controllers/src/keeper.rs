//! The frame of controllers that have caches of their own: ServiceCIDRs, Nodes, and what nobody owns.
//!
//! As in [`crate::run`], what decides is a state machine without clock or I/O, a [`Keeper`]; [`run`] is its rim, which
//! waits, and runs its jobs as tasks. What the frame sees to, for all of them: one worker a key at a time, and no
//! more than a bound in all; a growing pause after failures; that a panic stays with its key; and that nothing is
//! done before the caches hold everything.

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::Future;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{ClientError, Event, Query, watch};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{Id, JoinError, JoinSet};

use api::object::Resource;

use crate::metrics::Meter;
use crate::queue::{Queue, sleep_until};
use crate::run::{Environment, now};

/// Watch events that wait between the watches and the loop, all kinds of a controller together.
const EVENTS_WAITING_MAX: usize = 512;
/// Changes and answers that are taken in before work is started again: enough for one look to answer a burst, few
/// enough that a stream of them holds nothing up.
const TAKEN_AT_ONCE_MAX: usize = 4_096;

/// A state machine: changes, answers and the time in; keys to look at and jobs out.
pub(crate) trait Keeper {
    /// Something that arrived.
    type Change;
    /// What is looked at.
    type Key: Clone + Debug + Eq + Hash + Ord;
    /// What is to be done about a key.
    type Job: Debug;
    /// What came of a job that succeeded.
    type Answer;
    /// Jobs that are under way at the same time at most.
    const JOBS_MAX: usize;

    /// Takes in a change; what is to be looked at goes into the queue.
    fn take(&mut self, change: Self::Change, queue: &mut Queue<Self::Key>, now: Instant);
    /// Whether everything that was there at one moment has been told.
    fn is_synced(&self) -> bool;
    /// When [`Keeper::turn`] is due, whatever happens; never for those that only changes and keys concern.
    fn next_turn(&self) -> Option<Instant> {
        None
    }
    /// Does what is due at a time; what is to be looked at goes into the queue.
    fn turn(&mut self, _queue: &mut Queue<Self::Key>, _now: Instant) {}
    /// What is to be done about a key at present.
    fn look(&mut self, key: &Self::Key, now: Instant) -> Look<Self::Job>;
    /// A job on a key failed: it is open what of it was done. The key is looked at again after a pause.
    fn failed(&mut self, _key: &Self::Key) {}
    /// Takes in what came of a job.
    fn answered(&mut self, key: &Self::Key, answer: Self::Answer, queue: &mut Queue<Self::Key>, now: Instant);
}

/// What comes of a look at a key.
#[derive(Debug)]
pub(crate) enum Look<J> {
    /// All is as it should be.
    Fine,
    /// All is well for so long.
    Again(Duration),
    /// This is to be done.
    Do(J),
}

/// Runs a keeper until `shutdown` resolves; jobs under way are finished first.
pub(crate) async fn run<K, F>(
    keeper: K,
    changes: Receiver<K::Change>,
    meter: Arc<Meter>,
    carry_out: impl Fn(K::Key, K::Job) -> F,
    shutdown: impl Future<Output = ()>,
) where
    K: Keeper,
    K::Answer: Send + 'static,
    F: Future<Output = Result<K::Answer, ClientError>> + Send + 'static,
{
    let mut rim = Rim {
        keeper,
        changes,
        queue: Queue::metered(meter),
        tasks: JoinSet::new(),
        keys: HashMap::new(),
        carry_out,
    };
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = rim.step() => {}
        }
    }
    while let Some(outcome) = rim.tasks.join_next_with_id().await {
        rim.finish(outcome);
    }
}

struct Rim<K: Keeper, C> {
    keeper: K,
    changes: Receiver<K::Change>,
    queue: Queue<K::Key>,
    tasks: JoinSet<Result<K::Answer, ClientError>>,
    /// What each task works on.
    keys: HashMap<Id, K::Key>,
    carry_out: C,
}

impl<K, C, F> Rim<K, C>
where
    K: Keeper,
    K::Answer: Send + 'static,
    C: Fn(K::Key, K::Job) -> F,
    F: Future<Output = Result<K::Answer, ClientError>> + Send + 'static,
{
    /// Waits for one thing to happen and takes it in, then starts the work that is due.
    async fn step(&mut self) {
        let wake = [self.queue.next_wake(), self.keeper.next_turn()];
        let wake = wake.into_iter().flatten().min();
        tokio::select! {
            biased;
            Some(outcome) = self.tasks.join_next_with_id() => self.finish(outcome),
            Some(change) = self.changes.recv() => self.keeper.take(change, &mut self.queue, now()),
            // Before everything is known nothing is due.
            () = sleep_until(wake.filter(|_| self.keeper.is_synced())) => {}
        }
        // What has arrived already is taken in first, so that one look answers a burst.
        for _ in 0..TAKEN_AT_ONCE_MAX {
            if let Some(outcome) = self.tasks.try_join_next_with_id() {
                self.finish(outcome);
            } else if let Ok(change) = self.changes.try_recv() {
                self.keeper.take(change, &mut self.queue, now());
            } else {
                break;
            }
        }
        if self.keeper.is_synced() {
            self.queue.wake(now());
            self.keeper.turn(&mut self.queue, now());
            self.start_work();
        }
    }

    fn start_work(&mut self) {
        while self.tasks.len() < K::JOBS_MAX {
            let Some((key, _)) = self.queue.take(now()) else {
                return;
            };
            // A panic stays with its key: the rest of what the keeper knows is not concerned.
            let look = catch_unwind(AssertUnwindSafe(|| self.keeper.look(&key, now())));
            match look {
                Ok(Look::Do(job)) => {
                    let task = self.tasks.spawn((self.carry_out)(key.clone(), job));
                    self.keys.insert(task.id(), key);
                }
                Ok(Look::Again(pause)) => {
                    self.queue.add_at(key.clone(), now() + pause);
                    self.queue.done(&key, now());
                }
                Ok(Look::Fine) => {
                    self.queue.done(&key, now());
                }
                Err(_) => self.fail(&key, &"this program failed on it"),
            }
        }
    }

    fn finish(&mut self, outcome: Result<(Id, Result<K::Answer, ClientError>), JoinError>) {
        let id = outcome.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(key) = self.keys.remove(&id) else {
            return;
        };
        match outcome {
            Ok((_, Ok(answer))) => {
                self.keeper.answered(&key, answer, &mut self.queue, now());
                self.queue.done(&key, now());
            }
            // Losing a race is no failure that anybody needs to know of.
            Ok((_, Err(error))) if error.is_conflict() => {
                self.keeper.failed(&key);
                let pause = self.queue.failed(&key, now());
                tracing::debug!(?key, %error, ?pause, "somebody else wrote first, it will be tried again");
            }
            Ok((_, Err(error))) => self.fail(&key, &error),
            Err(error) => self.fail(&key, &error),
        }
    }

    fn fail(&mut self, key: &K::Key, error: &dyn std::fmt::Display) {
        self.keeper.failed(key);
        let pause = self.queue.failed(key, now());
        tracing::warn!(?key, %error, ?pause, "will be tried again");
    }
}

/// Channels into which watches tell.
pub(crate) fn changes<C>() -> (Sender<C>, Receiver<C>) {
    channel(EVENTS_WAITING_MAX)
}

/// Watches what `query` chooses of a kind, in a task that ends with the receiver of `sender`.
pub(crate) fn forward<T: Resource, C: Send + 'static>(
    environment: &Environment,
    query: Query,
    sender: Sender<C>,
    read: impl Fn(Event<T>) -> C + Send + 'static,
) {
    forward_with_revision(environment, query, sender, move |event, _| read(event));
}

/// The same for caches that are written through: `read` is also told, with [`Event::Synced`], the revision of the list
/// that is complete.
pub(crate) fn forward_with_revision<T: Resource, C: Send + 'static>(
    environment: &Environment,
    query: Query,
    sender: Sender<C>,
    read: impl Fn(Event<T>, u64) -> C + Send + 'static,
) {
    let mut events = watch::<T>(&environment.client, query);
    tokio::spawn(async move {
        loop {
            let event = tokio::select! {
                biased;
                () = sender.closed() => return,
                event = events.next() => event,
            };
            if sender.send(read(event, events.revision())).await.is_err() {
                return;
            }
        }
    });
}
