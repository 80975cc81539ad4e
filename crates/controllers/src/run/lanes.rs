//! The queues, one a controller, so that a flood for one holds up no other.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Options;
use super::work::Work;
use crate::metrics::Metrics;
use crate::queue::Queue;
use crate::selection::Controller;

/// The queues of all controllers that run.
pub(super) struct Lanes(BTreeMap<Controller, Lane>);

struct Lane {
    queue: Queue<Work>,
    busy_max: usize,
    batch_period: Duration,
}

impl Lanes {
    pub(super) fn new(options: &Options, metrics: &Metrics) -> Self {
        let running = Controller::ALL.into_iter();
        let running = running.filter(|controller| options.controllers.contains(*controller));
        let running = running.filter(|controller| options.concurrent_syncs(*controller) > 0);
        let lanes = running.map(|controller| {
            let lane = Lane {
                queue: Queue::metered(metrics.queue(controller.queue_name())),
                busy_max: options.concurrent_syncs(controller),
                batch_period: options.batch_period(controller),
            };
            (controller, lane)
        });
        Self(lanes.collect())
    }

    /// Asks for work at once, if its controller runs.
    pub(super) fn add(&mut self, work: Work, now: Instant) {
        if let Some(lane) = self.of(&work) {
            lane.queue.add(work, now);
        }
    }

    /// Asks for work when the controller's batch period is over, and not before `delay` is.
    pub(super) fn add_batched(&mut self, work: Work, delay: Duration, now: Instant) {
        let Some(lane) = self.of(&work) else { return };
        let delay = delay.max(lane.batch_period);
        if delay.is_zero() {
            lane.queue.add(work, now);
        } else {
            lane.queue.add_at(work, now + delay);
        }
    }

    /// The next work to be done, if its controller has a free worker.
    pub(super) fn take(&mut self, now: Instant) -> Option<Work> {
        let mut free = self.0.values_mut();
        free.find_map(|lane| {
            let is_free = lane.queue.busy() < lane.busy_max;
            let (work, _) = is_free.then(|| lane.queue.take(now)).flatten()?;
            Some(work)
        })
    }

    /// The work is done; returns how long it took.
    pub(super) fn done(&mut self, work: &Work, now: Instant) -> Duration {
        self.of(work)
            .map_or(Duration::ZERO, |lane| lane.queue.done(work, now))
    }

    /// The work needs another try after a pause; returns the pause.
    pub(super) fn failed(&mut self, work: &Work, now: Instant) -> Duration {
        self.of(work)
            .map_or(Duration::ZERO, |lane| lane.queue.failed(work, now))
    }

    /// Makes what rested long enough ready.
    pub(super) fn wake(&mut self, now: Instant) {
        for lane in self.0.values_mut() {
            lane.queue.wake(now);
        }
    }

    /// When the next rest ends.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.0.values().filter_map(|lane| lane.queue.next_wake()).min()
    }

    /// What is under way for a controller.
    pub(super) fn under_way(&self, controller: Controller) -> Vec<Work> {
        let lane = self.0.get(&controller);
        lane.map(|lane| lane.queue.under_way().cloned().collect())
            .unwrap_or_default()
    }

    fn of(&mut self, work: &Work) -> Option<&mut Lane> {
        self.0.get_mut(&work.controller())
    }
}
