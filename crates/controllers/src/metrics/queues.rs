//! Metrics of the work queues, with the names and help texts of client-go.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use telemetry::{Histogram, MetricType, MetricsText};

/// What is counted of a queue. It may be read while the queue is in use.
#[derive(Debug, Default)]
pub(crate) struct Meter(Mutex<Counts>);

#[derive(Debug)]
struct Counts {
    depth: usize,
    adds: u64,
    retries: u64,
    waited: Histogram,
    worked: Histogram,
    /// How many keys have been worked on since each moment.
    busy: BTreeMap<Instant, usize>,
}

impl Default for Counts {
    fn default() -> Self {
        // 10 ns to 1000 s, client-go's buckets.
        let times = || Histogram::exponential(1e-8, 10.0, 12);
        Self {
            depth: 0,
            adds: 0,
            retries: 0,
            waited: times(),
            worked: times(),
            busy: BTreeMap::new(),
        }
    }
}

impl Meter {
    /// The queue is a new one, and empty.
    pub(super) fn begin_anew(&self) {
        let mut counts = self.counts();
        counts.depth = 0;
        counts.busy.clear();
    }

    /// A key was asked for.
    pub(crate) fn added(&self) {
        self.counts().adds += 1;
    }

    /// A key rests after a failure.
    pub(crate) fn retried(&self) {
        self.counts().retries += 1;
    }

    /// So many keys wait for a worker.
    pub(crate) fn waiting(&self, depth: usize) {
        self.counts().depth = depth;
    }

    /// Work on a key begins.
    pub(crate) fn began(&self, waited: Duration, now: Instant) {
        let mut counts = self.counts();
        counts.waited.observe(waited.as_secs_f64());
        *counts.busy.entry(now).or_default() += 1;
    }

    /// Work on a key that began then is over.
    pub(crate) fn ended(&self, began: Instant, now: Instant) {
        let mut counts = self.counts();
        let worked = now.saturating_duration_since(began);
        counts.worked.observe(worked.as_secs_f64());
        if let Some(busy) = counts.busy.get_mut(&began) {
            *busy -= 1;
            if *busy == 0 {
                counts.busy.remove(&began);
            }
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// How long all keys that are worked on have been, and the one that has been longest, in seconds.
    fn unfinished(&self, now: Instant) -> (f64, f64) {
        let since = |at: &Instant| now.saturating_duration_since(*at).as_secs_f64();
        let all = self.busy.iter().map(|(at, count)| since(at) * *count as f64);
        // An empty sum is -0.
        (
            all.fold(0.0, |sum, seconds| sum + seconds),
            self.busy.keys().next().map_or(0.0, since),
        )
    }
}

/// Writes the metrics of all queues.
pub(super) fn write(queues: &BTreeMap<&'static str, Arc<Meter>>, now: Instant, text: &mut MetricsText) {
    let number =
        |text: &mut MetricsText, name: &str, metric_type, help: &str, of: fn(&Counts, Instant) -> f64| {
            text.family(name, metric_type, help);
            for (queue, meter) in queues {
                let value = of(&meter.counts(), now);
                text.sample(name, &format!("name=\"{queue}\""), value);
            }
        };
    let times = |text: &mut MetricsText, name: &str, help: &str, of: fn(&Counts) -> &Histogram| {
        text.family(name, MetricType::Histogram, help);
        for (queue, meter) in queues {
            text.histogram(name, &format!("name=\"{queue}\""), of(&meter.counts()));
        }
    };
    let (counter, gauge) = (MetricType::Counter, MetricType::Gauge);
    number(
        text,
        "workqueue_adds_total",
        counter,
        "Total number of adds handled by workqueue",
        |c, _| c.adds as f64,
    );
    number(
        text,
        "workqueue_depth",
        gauge,
        "Current depth of workqueue",
        |c, _| c.depth as f64,
    );
    number(
        text,
        "workqueue_longest_running_processor_seconds",
        gauge,
        "How many seconds has the longest running processor for workqueue been running.",
        |c, now| c.unfinished(now).1,
    );
    times(
        text,
        "workqueue_queue_duration_seconds",
        "How long in seconds an item stays in workqueue before being requested.",
        |c| &c.waited,
    );
    number(
        text,
        "workqueue_retries_total",
        counter,
        "Total number of retries handled by workqueue",
        |c, _| c.retries as f64,
    );
    number(
        text,
        "workqueue_unfinished_work_seconds",
        gauge,
        "How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large \
         values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this \
         increases.",
        |c, now| c.unfinished(now).0,
    );
    times(
        text,
        "workqueue_work_duration_seconds",
        "How long in seconds processing an item from workqueue takes.",
        |c| &c.worked,
    );
}
