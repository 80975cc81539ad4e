//! Histograms that threads update without locks.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

/// A histogram in the sense of Prometheus: counts of observations per bucket, and their sum.
///
/// Its bounds determine its size. Readers may see an observation in the buckets before the sum includes it.
#[derive(Debug)]
pub struct Histogram {
    bounds: Cow<'static, [f64]>,
    /// Observations per bucket, not cumulative. The last bucket has no upper bound.
    counts: Box<[AtomicU64]>,
    /// Bits of an `f64`: the standard library has no atomic floating-point number.
    sum_bits: AtomicU64,
}

impl Histogram {
    /// Creates an empty histogram with the given upper bounds, in ascending order.
    pub fn new(bounds: impl Into<Cow<'static, [f64]>>) -> Self {
        let bounds = bounds.into();
        Self {
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            bounds,
            sum_bits: AtomicU64::new(0.0_f64.to_bits()),
        }
    }

    /// Creates an empty histogram with `count` bounds, each `factor` times the previous one (upstream's
    /// `ExponentialBuckets`).
    pub fn exponential(first: f64, factor: f64, count: usize) -> Self {
        let bounds = std::iter::successors(Some(first), |bound| Some(bound * factor));
        Self::new(bounds.take(count).collect::<Vec<f64>>())
    }

    /// Counts one observation.
    pub fn observe(&self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
            self.add_to_sum(value);
        }
    }

    /// Adds the observations of `other`, which has the same bounds.
    pub fn add(&self, other: &Self) {
        for (count, more) in self.counts.iter().zip(&other.counts) {
            count.fetch_add(more.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.add_to_sum(other.sum());
    }

    /// Returns the number of observations.
    pub fn count(&self) -> u64 {
        self.counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }

    /// Returns the sum of all observations.
    pub fn sum(&self) -> f64 {
        f64::from_bits(self.sum_bits.load(Ordering::Relaxed))
    }

    /// Returns the upper bounds of the buckets.
    pub fn bounds(&self) -> &[f64] {
        &self.bounds
    }

    /// Returns the observations per bucket, not cumulative. The last bucket, beyond all bounds, has no upper bound.
    pub fn counts(&self) -> Vec<u64> {
        self.counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .collect()
    }

    fn add_to_sum(&self, value: f64) {
        let add = |bits| Some((f64::from_bits(bits) + value).to_bits());
        // The closure always returns a value, so the update cannot fail.
        self.sum_bits
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .ok();
    }
}

#[cfg(test)]
mod tests;
