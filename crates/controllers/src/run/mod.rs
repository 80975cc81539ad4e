//! The loop: watch events in, keys to look at, writes out.
//!
//! [`watches`] says what arrives, [`intake`] what it means for whom, [`work`] what is done about it.

mod intake;
mod watches;
mod work;

use std::future::Future;
use std::time::Instant;

use client::Client;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::endpointslice::trigger::TriggerTimes;
use crate::events::Told;
use crate::garbage;
use crate::placement::RoundRobin;
use crate::queue::{Queue, sleep_until};
use crate::selection::{Controller, Selection};
use crate::world::World;

use watches::Watches;
use work::{Done, Topic, Work};

/// Settings of the controllers.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which controllers run.
    pub controllers: Selection,
    /// Syncs that may be under way at once, for each controller that runs (EPS-26, EPC-16, EPM-12).
    pub concurrent_service_endpoint_syncs: usize,
    /// Most endpoints in one slice (EPS-11).
    pub max_endpoints_per_slice: usize,
    /// Most addresses of one subset that are mirrored (EPM-08).
    pub mirroring_max_endpoints_per_subset: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            controllers: Selection::default(),
            concurrent_service_endpoint_syncs: 5,
            max_endpoints_per_slice: 100,
            mirroring_max_endpoints_per_subset: 1_000,
        }
    }
}

/// Runs the controllers until `shutdown` resolves; writes under way are finished first.
pub async fn run(client: Client, options: Options, shutdown: impl Future<Output = ()>) {
    // The collector ends when its half of the channel tells that this one is gone.
    let (running, ended) = oneshot::channel::<()>();
    let collects = options.controllers.contains(Controller::GarbageCollector);
    let collector = collects.then(|| {
        let ended = async { ended.await.unwrap_or_default() };
        tokio::spawn(garbage::run(client.clone(), ended))
    });
    let mut loop_ = Loop::new(client, options);
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = loop_.step() => {}
            () = &mut shutdown => break,
        }
    }
    while let Some(outcome) = loop_.tasks.join_next().await {
        if let Err(error) = outcome {
            tracing::error!(%error, "a controller's task failed");
        }
    }
    drop(running);
    if let Some(collector) = collector
        && let Err(error) = collector.await
    {
        tracing::error!(%error, "the garbage collector failed");
    }
}

struct Loop {
    client: Client,
    options: Options,
    watches: Watches,
    world: World,
    queue: Queue<Work>,
    tasks: JoinSet<Done>,
    slice_triggers: TriggerTimes,
    endpoints_triggers: TriggerTimes,
    round_robin: RoundRobin,
    told: Told<Topic>,
    leftovers_seen: bool,
}

impl Loop {
    fn new(client: Client, options: Options) -> Self {
        Self {
            watches: Watches::open(&client, &options.controllers),
            client,
            options,
            world: World::default(),
            queue: Queue::default(),
            tasks: JoinSet::new(),
            slice_triggers: TriggerTimes::default(),
            endpoints_triggers: TriggerTimes::default(),
            round_robin: RoundRobin::default(),
            told: Told::default(),
            leftovers_seen: false,
        }
    }

    /// Waits for one thing to happen and takes it in, then starts the work that is due.
    async fn step(&mut self) {
        let wake = self.queue.next_wake();
        tokio::select! {
            change = self.watches.next() => self.take(change),
            Some(outcome) = self.tasks.join_next() => self.take_outcome(outcome),
            () = sleep_until(wake) => {}
        }
        // Everything that has arrived is taken in first, so that one sync answers a burst.
        while let Some(change) = self.watches.next_ready() {
            self.take(change);
        }
        self.queue.wake(Instant::now());
        // Nothing is written before all caches hold everything.
        if self.watches.are_synced() {
            self.start_work();
        }
    }
}
