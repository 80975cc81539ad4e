//! Metrics of work queues under client-go's names.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use telemetry::{Histogram, MetricType, MetricsText};

/// The queues of a process by name. A queue that is created again under its name continues its counters.
#[derive(Debug, Default)]
pub struct QueueRegistry(Mutex<BTreeMap<&'static str, Arc<QueueMetrics>>>);

impl QueueRegistry {
    /// Returns the metrics for a new queue, and resets the gauges of an earlier queue with this name.
    pub fn register(&self, name: &'static str) -> Arc<QueueMetrics> {
        let mut queues = self.queues();
        let metrics = queues.entry(name).or_default();
        metrics.reset_gauges();
        Arc::clone(metrics)
    }

    /// Writes the `workqueue_*` families of all queues.
    pub fn write(&self, now: Instant, text: &mut MetricsText) {
        let queues = self.queues();
        let mut number = |name: &str, metric_type, help: &str, value_of: fn(&Counts, Instant) -> f64| {
            text.family(name, metric_type, help);
            for (queue, metrics) in &*queues {
                let value = value_of(&metrics.counts(), now);
                text.sample(name, &format!("name=\"{queue}\""), value);
            }
        };
        let (counter, gauge) = (MetricType::Counter, MetricType::Gauge);
        number(
            "workqueue_adds_total",
            counter,
            "Total number of adds handled by workqueue",
            |counts, _| counts.adds as f64,
        );
        number(
            "workqueue_depth",
            gauge,
            "Current depth of workqueue",
            |counts, _| counts.depth as f64,
        );
        number(
            "workqueue_longest_running_processor_seconds",
            gauge,
            "How many seconds has the longest running processor for workqueue been running.",
            |counts, now| counts.unfinished_seconds(now).longest,
        );
        number(
            "workqueue_retries_total",
            counter,
            "Total number of retries handled by workqueue",
            |counts, _| counts.retries as f64,
        );
        number(
            "workqueue_unfinished_work_seconds",
            gauge,
            "How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large \
             values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at \
             which this increases.",
            |counts, now| counts.unfinished_seconds(now).total,
        );
        let mut durations = |name: &str, help: &str, histogram_of: fn(&Counts) -> &Histogram| {
            text.family(name, MetricType::Histogram, help);
            for (queue, metrics) in &*queues {
                let counts = metrics.counts();
                text.histogram(name, &format!("name=\"{queue}\""), histogram_of(&counts));
            }
        };
        durations(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested.",
            |counts| &counts.queue_seconds,
        );
        durations(
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes.",
            |counts| &counts.work_seconds,
        );
    }

    fn queues(&self) -> MutexGuard<'_, BTreeMap<&'static str, Arc<QueueMetrics>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The metrics of one queue. They can be read while the queue is in use.
#[derive(Debug, Default)]
pub struct QueueMetrics(Mutex<Counts>);

/// Numbers and durations of a queue.
#[derive(Debug)]
struct Counts {
    depth: usize,
    adds: u64,
    retries: u64,
    queue_seconds: Histogram,
    work_seconds: Histogram,
    /// Number of keys in progress by the time at which work on them started.
    in_progress: BTreeMap<Instant, usize>,
}

impl Default for Counts {
    fn default() -> Self {
        // client-go's buckets: 10 ns to 1000 s.
        let durations = || Histogram::exponential(1e-8, 10.0, 12);
        Self {
            depth: 0,
            adds: 0,
            retries: 0,
            queue_seconds: durations(),
            work_seconds: durations(),
            in_progress: BTreeMap::new(),
        }
    }
}

impl QueueMetrics {
    fn reset_gauges(&self) {
        let mut counts = self.counts();
        counts.depth = 0;
        counts.in_progress.clear();
    }

    /// Counts an added key.
    pub(crate) fn count_add(&self) {
        self.counts().adds += 1;
    }

    /// Counts a retry.
    pub(crate) fn count_retry(&self) {
        self.counts().retries += 1;
    }

    /// Sets the number of keys that wait for a worker.
    pub(crate) fn set_depth(&self, depth: usize) {
        self.counts().depth = depth;
    }

    /// Notes that work on a key starts after it has waited for `queued`.
    pub(crate) fn work_started(&self, queued: Duration, now: Instant) {
        let mut counts = self.counts();
        counts.queue_seconds.observe(queued.as_secs_f64());
        *counts.in_progress.entry(now).or_default() += 1;
    }

    /// Notes the end of work that started at `started`.
    pub(crate) fn work_finished(&self, started: Instant, now: Instant) {
        let mut counts = self.counts();
        let worked = now.saturating_duration_since(started);
        counts.work_seconds.observe(worked.as_secs_f64());
        if let Some(count) = counts.in_progress.get_mut(&started) {
            *count -= 1;
            if *count == 0 {
                counts.in_progress.remove(&started);
            }
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Seconds of work in progress.
struct UnfinishedSeconds {
    total: f64,
    longest: f64,
}

impl Counts {
    fn unfinished_seconds(&self, now: Instant) -> UnfinishedSeconds {
        let since = |at: &Instant| now.saturating_duration_since(*at).as_secs_f64();
        let seconds = self
            .in_progress
            .iter()
            .map(|(at, count)| since(at) * *count as f64);
        UnfinishedSeconds {
            // Not `sum()`: an empty sum of floats is -0.
            total: seconds.fold(0.0, |sum, seconds| sum + seconds),
            longest: self.in_progress.keys().next().map_or(0.0, since),
        }
    }
}

#[cfg(test)]
mod tests;
