//! Percentiles of measured durations.

use std::time::Duration;

/// Durations, sorted once they are all there.
pub struct Percentiles(Vec<Duration>);

impl Percentiles {
    /// Sorts what was measured; at least one value must be there.
    pub fn of(mut durations: Vec<Duration>) -> Option<Self> {
        durations.sort_unstable();
        (!durations.is_empty()).then_some(Self(durations))
    }

    /// The value that `percent` of all values do not exceed, in milliseconds.
    pub fn milliseconds(&self, percent: usize) -> f64 {
        let index = (self.0.len() * percent / 100).min(self.0.len() - 1);
        self.0[index].as_secs_f64() * 1e3
    }
}
