//! One queue for each controller, so that much work for one controller does not delay the others.

use reconcile::queue::Queue;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::sync_key::SyncKey;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::selection::Controller;

/// The queues of the controllers that run.
pub(super) struct WorkQueues(BTreeMap<Controller, WorkQueue>);

/// Queue of a controller, with its settings.
struct WorkQueue {
    queue: Queue<SyncKey>,
    concurrent_syncs: usize,
    batch_period: Duration,
}

impl WorkQueues {
    pub(super) fn new(options: &Options, metrics: &Metrics) -> Self {
        let selected = Controller::ALL.into_iter().filter(|controller| {
            options.controllers.contains(*controller) && options.concurrent_syncs(*controller) > 0
        });
        let queues = selected.map(|controller| {
            let queue = WorkQueue {
                queue: Queue::with_metrics(metrics.register_queue(controller.queue_name()))
                    .shared_by(SyncKey::namespace),
                concurrent_syncs: options.concurrent_syncs(controller),
                batch_period: options.batch_period(controller),
            };
            (controller, queue)
        });
        Self(queues.collect())
    }

    /// Adds work, if its controller runs.
    pub(super) fn add(&mut self, work: SyncKey, now: Instant) {
        if let Some(queue) = self.of(&work) {
            queue.queue.add(work, now);
        }
    }

    /// Adds work after the controller's batch period or `delay`, whichever is longer.
    pub(super) fn add_batched(&mut self, work: SyncKey, delay: Duration, now: Instant) {
        let Some(queue) = self.of(&work) else { return };
        let delay = delay.max(queue.batch_period);
        if delay.is_zero() {
            queue.queue.add(work, now);
        } else {
            queue.queue.add_at(work, now + delay);
        }
    }

    /// Takes the next work of a controller that has a free worker.
    pub(super) fn take(&mut self, now: Instant) -> Option<SyncKey> {
        self.0.values_mut().find_map(|queue| {
            let has_free_worker = queue.queue.busy() < queue.concurrent_syncs;
            let (work, _) = has_free_worker.then(|| queue.queue.take(now)).flatten()?;
            Some(work)
        })
    }

    /// Counts the bytes of large objects that work has rewritten. The work is held for a time that grows with them.
    pub(super) fn count_rewritten(&mut self, work: &SyncKey, bytes: usize, now: Instant) {
        if let Some(queue) = self.of(work) {
            queue.queue.count_rewritten(work, bytes, now);
        }
    }

    /// Ends work with success; returns its duration.
    pub(super) fn done(&mut self, work: &SyncKey, now: Instant) -> Duration {
        self.of(work)
            .map_or(Duration::ZERO, |queue| queue.queue.done(work, now))
    }

    /// Ends work with a failure and schedules a retry; returns the delay.
    pub(super) fn failed(&mut self, work: &SyncKey, now: Instant) -> Duration {
        self.of(work)
            .map_or(Duration::ZERO, |queue| queue.queue.failed(work, now))
    }

    /// Makes the work ready whose delay has ended.
    pub(super) fn wake(&mut self, now: Instant) {
        for queue in self.0.values_mut() {
            queue.queue.wake(now);
        }
    }

    /// Returns the end of the shortest delay.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.0.values().filter_map(|queue| queue.queue.next_wake()).min()
    }

    /// Returns the work in progress of a controller.
    pub(super) fn in_progress(&self, controller: Controller) -> Vec<SyncKey> {
        let queue = self.0.get(&controller);
        queue
            .map(|queue| queue.queue.in_progress().cloned().collect())
            .unwrap_or_default()
    }

    fn of(&mut self, work: &SyncKey) -> Option<&mut WorkQueue> {
        self.0.get_mut(&work.controller())
    }
}
