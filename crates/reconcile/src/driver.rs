//! The driver of a reconciler: waits for changes, timers and results, and runs jobs as tasks.
//!
//! The driver guarantees one job per key at a time, bounds on concurrent jobs of each tenant and of all, pauses after writes of
//! large objects, and back-off after failures. A panic affects only its key. No reconciliation runs before the caches are complete.

use std::collections::HashMap;
use std::fmt::Display;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use client::ClientError;
use tokio::sync::mpsc::Receiver;
use tokio::task::{Id, JoinError, JoinSet};

use crate::announced_retries::AnnouncedRetries;
use crate::clock::{now, sleep_until};
use crate::metrics::QueueMetrics;
use crate::queue::Queue;
use crate::reconciler::{Action, Reconciler};
use crate::rewrites;

/// Changes and results that are applied before new jobs start. With this bound, one reconciliation covers a burst,
/// and a steady stream does not delay the jobs.
const BATCH_MAX: usize = 4_096;

/// Maximum number of reconciliations without a job between two receptions of changes and results. Thousands of
/// expensive ones would occupy a thread of the runtime, decide with outdated caches and delay the shutdown.
const RECONCILIATIONS_MAX: usize = 64;

/// The result of a job, and the bytes of the large objects that it has rewritten.
type FinishedJob<O> = (Result<O, ClientError>, usize);

/// Runs a reconciler until `shutdown` resolves, then waits for the running jobs.
pub async fn run<R, F>(
    reconciler: R,
    changes: Receiver<R::Change>,
    metrics: Arc<QueueMetrics>,
    run_job: impl Fn(R::Key, R::Job) -> F,
    shutdown: impl Future<Output = ()>,
) where
    R: Reconciler,
    R::Output: Send + 'static,
    F: Future<Output = Result<R::Output, ClientError>> + Send + 'static,
{
    let mut driver = Driver {
        reconciler,
        changes,
        queue: Queue::with_metrics(metrics).shared_by(R::tenant),
        tasks: JoinSet::new(),
        keys: HashMap::new(),
        tenant_jobs: HashMap::new(),
        retries: AnnouncedRetries::default(),
        run_job,
    };
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = driver.step() => {}
        }
    }
    while let Some(result) = driver.tasks.join_next_with_id().await {
        driver.finish(result);
    }
}

/// Queue and running jobs of a reconciler.
struct Driver<R: Reconciler, J> {
    reconciler: R,
    changes: Receiver<R::Change>,
    queue: Queue<R::Key>,
    tasks: JoinSet<FinishedJob<R::Output>>,
    /// The key of each task.
    keys: HashMap<Id, R::Key>,
    /// The number of tasks of each tenant that has any.
    tenant_jobs: HashMap<Box<str>, usize>,
    /// Retries that the log announced.
    retries: AnnouncedRetries<R::Key>,
    run_job: J,
}

impl<R, J, F> Driver<R, J>
where
    R: Reconciler,
    R::Output: Send + 'static,
    J: Fn(R::Key, R::Job) -> F,
    F: Future<Output = Result<R::Output, ClientError>> + Send + 'static,
{
    /// Waits for one change, result, timer or ready key, applies it, and starts the jobs that are due.
    async fn step(&mut self) {
        let has_work = self.reconciler.is_synced()
            && self.tasks.len() < R::CONCURRENT_JOBS_MAX
            && self
                .queue
                .is_any_ready(|tenant| may_run::<R>(&self.tenant_jobs, tenant));
        let wake = [self.queue.next_wake(), self.reconciler.next_tick()];
        let wake = wake.into_iter().flatten().min();
        tokio::select! {
            biased;
            Some(result) = self.tasks.join_next_with_id() => self.finish(result),
            Some(change) = self.changes.recv() => self.reconciler.apply_change(change, &mut self.queue, now()),
            // Other tasks of the thread run in between.
            () = tokio::task::yield_now(), if has_work => {}
            // No key is due before the caches are complete.
            () = sleep_until(wake.filter(|_| self.reconciler.is_synced())) => {}
        }
        // Apply everything that has arrived, so that one reconciliation covers a burst.
        for _ in 0..BATCH_MAX {
            if let Some(result) = self.tasks.try_join_next_with_id() {
                self.finish(result);
            } else if let Ok(change) = self.changes.try_recv() {
                self.reconciler.apply_change(change, &mut self.queue, now());
            } else {
                break;
            }
        }
        if self.reconciler.is_synced() {
            self.queue.wake(now());
            self.reconciler.tick(&mut self.queue, now());
            self.start_jobs();
        }
    }

    /// Starts jobs for keys that are ready, within the limits of the controller and of each tenant.
    fn start_jobs(&mut self) {
        for _ in 0..RECONCILIATIONS_MAX {
            if self.tasks.len() >= R::CONCURRENT_JOBS_MAX {
                return;
            }
            let tenant_jobs = &self.tenant_jobs;
            let ready = self
                .queue
                .take_of(|tenant| may_run::<R>(tenant_jobs, tenant), now());
            let Some((key, _)) = ready else {
                return;
            };
            // A panic fails this key only; the caches hold no half-applied change.
            let action = catch_unwind(AssertUnwindSafe(|| self.reconciler.reconcile(&key, now())));
            match action {
                Ok(Action::Run(job)) => {
                    let job = rewrites::measured((self.run_job)(key.clone(), job));
                    let task = self.tasks.spawn(job);
                    *self.tenant_jobs.entry(R::tenant(&key).into()).or_default() += 1;
                    self.keys.insert(task.id(), key);
                }
                Ok(Action::RequeueAfter(delay)) => {
                    self.retries.forget(&key);
                    self.queue.add_after(key.clone(), delay, now());
                    self.queue.done(&key, now());
                }
                Ok(Action::Done) => {
                    self.retries.forget(&key);
                    self.queue.done(&key, now());
                }
                Err(_) => self.fail(&key, &"reconciliation panicked; see the previous log line"),
            }
        }
    }

    fn finish(&mut self, result: Result<(Id, FinishedJob<R::Output>), JoinError>) {
        let id = result.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(key) = self.keys.remove(&id) else {
            return;
        };
        self.count_end(&key);
        let result = result.map(|(_, (result, rewritten_bytes))| {
            self.queue.count_rewritten(&key, rewritten_bytes, now());
            result
        });
        match result {
            Ok(Ok(output)) => {
                self.retries.forget(&key);
                self.reconciler.on_success(&key, output, &mut self.queue, now());
                self.queue.done(&key, now());
            }
            Ok(Err(error)) if is_expected(&error) => {
                self.reconciler.on_failure(&key);
                let delay = self.queue.failed(&key, now());
                tracing::debug!(?key, %error, ?delay, "write refused; retrying");
            }
            Ok(Err(error)) => self.fail(&key, &error),
            Err(error) => self.fail(&key, &error),
        }
    }

    /// Counts the end of the task of a key.
    fn count_end(&mut self, key: &R::Key) {
        let tenant = R::tenant(key);
        if let Some(jobs) = self.tenant_jobs.get_mut(tenant) {
            *jobs = jobs.saturating_sub(1);
            if *jobs == 0 {
                self.tenant_jobs.remove(tenant);
            }
        }
    }

    fn fail(&mut self, key: &R::Key, error: &dyn Display) {
        self.reconciler.on_failure(key);
        let delay = self.queue.failed(key, now());
        // A change of the object starts a retry before the announced one. Its failure is logged at debug level only.
        if self.retries.announce(key, now(), delay) {
            tracing::warn!(?key, %error, ?delay, "reconciliation failed; retrying");
        } else {
            tracing::debug!(?key, %error, ?delay, "reconciliation failed before the announced retry");
        }
    }
}

/// Returns true if an error is no reason for a warning. A conflict is part of optimistic concurrency, and a namespace
/// that terminates refuses new objects until its controllers' objects are deleted.
fn is_expected(error: &ClientError) -> bool {
    error.is_conflict() || error.is_namespace_terminating()
}

/// Returns true if a tenant with these numbers of tasks may run another one.
fn may_run<R: Reconciler>(tenant_jobs: &HashMap<Box<str>, usize>, tenant: &str) -> bool {
    tenant_jobs
        .get(tenant)
        .is_none_or(|jobs| *jobs < R::TENANT_JOBS_MAX)
}

#[cfg(test)]
mod tests;
