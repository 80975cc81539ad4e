//! The EndpointSlice, Endpoints and EndpointSliceMirroring controllers, which share their caches.
//!
//! - [`watches`] receives changes; [`apply_changes`] applies them to the caches ([`crate::caches`]) and adds the
//!   affected [`SyncKey`]s to the queues ([`work_queues`]).
//! - [`compute_job`] calls the controller's pure function and turns its result into a [`job::JobKind`]; [`job`] runs it.
//! - [`apply_results`] applies the result of a job to the caches.
//!
//! [`reconciler`] is a state machine without clock or I/O. The driver in this module waits, and runs jobs as tasks.
//! `tests/simulation` can therefore run it with random orders of events. [`reconcile::run`] drives one queue of one
//! controller; this driver has a queue and a worker limit for each of the three controllers. It restarts with empty
//! caches after a watch has failed.

mod apply_changes;
mod apply_results;
mod compute_job;
mod job;
mod reconciler;
mod sync_key;
mod watches;
mod work_queues;

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use client::election::RequestCompletion;
use reconcile::{now, rewrites, sleep_until};
use tokio::task::{Id, JoinError, JoinSet};

use crate::environment::Environment;
use crate::metrics::Phase;
use crate::options::Options;

use job::{FinishedJob, Job, JobResult, execute};
use reconciler::EndpointReconciler;
use sync_key::SyncKey;
use watches::Watches;

/// Changes and results that are applied before new jobs start. With this bound, one sync covers a burst, and a steady
/// stream does not delay the jobs.
const BATCH_MAX: usize = 4_096;
/// Time for writes in progress at shutdown. The next leader repeats unfinished ones.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay before a restart after a failed watch. It bounds the rate of requests to the API server after a defect.
const RESTART_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of concurrent Event writes; further Events are dropped, because Events are best effort.
const CONCURRENT_EVENTS_MAX: usize = 100;

/// Runs the selected endpoint controllers until `shutdown` resolves, then drains writes in progress.
pub(crate) async fn run(
    environment: Environment,
    options: Options,
    shutdown: impl Future<Output = ()>,
) -> RequestCompletion {
    tokio::pin!(shutdown);
    loop {
        let mut driver = Driver::new(environment.clone(), options.clone());
        let is_shutdown = tokio::select! {
            biased;
            () = &mut shutdown => true,
            () = driver.run() => false,
        };
        let completion = driver.drain().await;
        if is_shutdown {
            return completion;
        }
        tracing::error!(delay = ?RESTART_DELAY, "watch failed; restarting with empty caches");
        tokio::select! {
            biased;
            () = &mut shutdown => return completion,
            () = tokio::time::sleep(RESTART_DELAY) => {}
        }
    }
}

/// Waits for changes, timers and results, and runs the jobs of the reconciler.
struct Driver {
    environment: Environment,
    watches: Watches,
    reconciler: EndpointReconciler,
    /// Running jobs. Each returns its result, and the bytes of the large objects that it has rewritten.
    tasks: JoinSet<(FinishedJob, usize)>,
    /// The work of each task, for tasks that panic.
    works: HashMap<Id, SyncKey>,
    events: JoinSet<()>,
    /// True after all caches have received their initial lists.
    are_caches_synced: bool,
}

impl Driver {
    fn new(environment: Environment, options: Options) -> Self {
        Self {
            watches: Watches::open(&environment.client, &options.controllers),
            reconciler: EndpointReconciler::new(options, Arc::clone(&environment.metrics)),
            environment,
            are_caches_synced: false,
            tasks: JoinSet::new(),
            works: HashMap::new(),
            events: JoinSet::new(),
        }
    }

    /// Runs until a watch fails.
    async fn run(&mut self) {
        self.environment.metrics.enter(Phase::Reading);
        if self.watches.are_synced() {
            // None of the three controllers is selected.
            self.record_synced();
        }
        while self.step().await {}
    }

    /// Waits for one change, result or timer, applies it, and starts the jobs that are due. Returns false if a watch
    /// failed.
    async fn step(&mut self) -> bool {
        // No work is due before the caches are complete.
        let wake = self.reconciler.next_wake().filter(|_| self.watches.are_synced());
        tokio::select! {
            biased;
            Some(result) = self.tasks.join_next_with_id() => self.finish(result),
            change = self.watches.next() => match change {
                Some(change) => self.reconciler.apply_change(change, now()),
                None => return false,
            },
            Some(result) = self.events.join_next() => log_panic(result),
            () = sleep_until(wake) => {}
        }
        // Apply everything that has arrived, so that one sync covers a burst.
        for _ in 0..BATCH_MAX {
            if let Some(result) = self.tasks.try_join_next_with_id() {
                self.finish(result);
            } else if let Some(change) = self.watches.next_ready() {
                self.reconciler.apply_change(change, now());
            } else {
                break;
            }
        }
        if self.watches.are_synced() {
            self.record_synced();
            for job in self.reconciler.start_jobs(now()) {
                self.spawn(job);
            }
        }
        self.record_events();
        true
    }

    fn record_synced(&mut self) {
        if !std::mem::replace(&mut self.are_caches_synced, true) {
            self.environment.metrics.enter(Phase::Working);
        }
    }

    fn spawn(&mut self, job: Job) {
        let work = job.work.clone();
        let execution = execute(self.environment.clone(), job);
        let task = self.tasks.spawn(rewrites::measured(execution));
        self.works.insert(task.id(), work);
    }

    fn finish(&mut self, result: Result<(Id, (FinishedJob, usize)), JoinError>) {
        let finished = match result {
            Ok((id, (finished, rewritten_bytes))) => {
                self.works.remove(&id);
                let queues = &mut self.reconciler.queues;
                queues.count_rewritten(&finished.work, rewritten_bytes, now());
                finished
            }
            Err(error) => {
                let Some(work) = self.works.remove(&error.id()) else {
                    return;
                };
                tracing::error!(?work, %error, "controller job panicked");
                let result = JobResult::Panicked;
                FinishedJob { work, result }
            }
        };
        self.reconciler.finish(finished, now());
    }

    /// Writes the Events that the reconciler has queued.
    fn record_events(&mut self) {
        for batch in self.reconciler.take_event_batches() {
            if self.events.len() >= CONCURRENT_EVENTS_MAX {
                tracing::warn!(
                    ?batch,
                    max = CONCURRENT_EVENTS_MAX,
                    "Event dropped; too many are in flight"
                );
                continue;
            }
            let recorder = self.environment.events.clone();
            self.events
                .spawn(async move { recorder.record_batch(batch).await });
        }
    }

    /// Waits for writes and Events in progress.
    async fn drain(mut self) -> RequestCompletion {
        let drained = async {
            while let Some(result) = self.tasks.join_next_with_id().await {
                self.finish(result);
            }
            while let Some(result) = self.events.join_next().await {
                log_panic(result);
            }
        };
        if tokio::time::timeout(DRAIN_TIMEOUT, drained).await.is_err() {
            tracing::warn!(timeout = ?DRAIN_TIMEOUT, "drain timed out; writes in progress were cancelled");
            return RequestCompletion::Abandoned;
        }
        RequestCompletion::Complete
    }
}

fn log_panic(result: Result<(), JoinError>) {
    if let Err(error) = result {
        tracing::error!(%error, "Event task panicked");
    }
}
