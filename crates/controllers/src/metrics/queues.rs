//! What is counted of queues, under the names that client-go has for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use telemetry::{Counted, Histogram, Text};

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
        // 10 ns to 1000 s, as client-go has them.
        let times = Histogram::exponential(1e-8, 10.0, 12);
        Self {
            depth: 0,
            adds: 0,
            retries: 0,
            waited: times.clone(),
            worked: times,
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
pub(super) fn write(queues: &BTreeMap<&'static str, Arc<Meter>>, now: Instant, text: &mut Text) {
    let number = |text: &mut Text, name: &str, counted, of: fn(&Counts, Instant) -> f64| {
        text.family(name, counted);
        for (queue, meter) in queues {
            let value = of(&meter.counts(), now);
            text.sample(name, &format!("name=\"{queue}\""), value);
        }
    };
    let times = |text: &mut Text, name: &str, of: fn(&Counts) -> &Histogram| {
        text.family(name, Counted::Histogram);
        for (queue, meter) in queues {
            text.observations(name, &format!("name=\"{queue}\""), of(&meter.counts()));
        }
    };
    let (counter, gauge) = (Counted::Counter, Counted::Gauge);
    number(text, "workqueue_adds_total", counter, |c, _| c.adds as f64);
    number(text, "workqueue_depth", gauge, |c, _| c.depth as f64);
    number(
        text,
        "workqueue_longest_running_processor_seconds",
        gauge,
        |c, now| c.unfinished(now).1,
    );
    times(text, "workqueue_queue_duration_seconds", |c| &c.waited);
    number(text, "workqueue_retries_total", counter, |c, _| c.retries as f64);
    number(text, "workqueue_unfinished_work_seconds", gauge, |c, now| {
        c.unfinished(now).0
    });
    times(text, "workqueue_work_duration_seconds", |c| &c.worked);
}
