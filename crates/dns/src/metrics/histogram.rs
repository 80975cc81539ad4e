//! Observations in buckets, counted without locks.

use std::sync::atomic::{AtomicU64, Ordering};

use telemetry::Text;

/// Parts of a unit in which sums are kept: millionths, so that durations in seconds do not vanish.
const PARTS: f64 = 1e6;

/// A histogram.
#[derive(Debug)]
pub(crate) struct Histogram {
    bounds: &'static [f64],
    /// One more than bounds: the last is for what is above all of them.
    counts: Box<[AtomicU64]>,
    sum_parts: AtomicU64,
}

impl Histogram {
    pub(crate) fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum_parts: AtomicU64::new(0),
        }
    }

    /// Counts an observation.
    pub(crate) fn observe(&self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        // Negative durations come from clocks that differ; they count as none.
        self.sum_parts
            .fetch_add((value.max(0.0) * PARTS) as u64, Ordering::Relaxed);
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }

    /// Adds what another one of the same bounds has counted.
    pub(super) fn add(&self, other: &Self) {
        for (count, more) in self.counts.iter().zip(&other.counts) {
            count.fetch_add(more.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.sum_parts
            .fetch_add(other.sum_parts.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Writes it.
    pub(crate) fn write(&self, text: &mut Text, name: &str, labels: &str) {
        let counts: Vec<u64> = self.counts.iter().map(|c| c.load(Ordering::Relaxed)).collect();
        let sum = self.sum_parts.load(Ordering::Relaxed) as f64 / PARTS;
        text.histogram(name, labels, self.bounds, &counts, sum);
    }
}
