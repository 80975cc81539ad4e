//! Observations in buckets.

/// A histogram. It is bounded: it holds counts, no observations.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds: Box<[f64]>,
    /// One more than bounds: the last is for what is above all of them.
    counts: Box<[u64]>,
    sum: f64,
}

impl Histogram {
    /// An empty one with these bounds, in ascending order.
    pub fn new(bounds: Box<[f64]>) -> Self {
        let counts = vec![0; bounds.len() + 1].into();
        Self {
            bounds,
            counts,
            sum: 0.0,
        }
    }

    /// An empty one with `count` bounds, each `factor` times the one before, as upstream's `ExponentialBuckets`.
    pub fn exponential(first: f64, factor: f64, count: usize) -> Self {
        let bounds = std::iter::successors(Some(first), |bound| Some(bound * factor));
        Self::new(bounds.take(count).collect())
    }

    /// Counts an observation.
    pub fn observe(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
            self.sum += value;
        }
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all observations.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// The bounds of the buckets.
    pub fn bounds(&self) -> &[f64] {
        &self.bounds
    }

    /// How many are in each bucket; one more than bounds: the last is for what is above all of them.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }
}

#[cfg(test)]
mod tests;
