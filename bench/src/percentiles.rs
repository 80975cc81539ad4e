//! Percentiles of durations.

use std::time::Duration;

/// Sorted durations.
pub(crate) struct Percentiles(Vec<Duration>);

impl Percentiles {
    /// Sorts the durations; `None` if there are no durations.
    pub(crate) fn of(mut durations: Vec<Duration>) -> Option<Self> {
        durations.sort_unstable();
        (!durations.is_empty()).then_some(Self(durations))
    }

    /// Percentile in milliseconds.
    pub(crate) fn milliseconds(&self, percent: usize) -> f64 {
        let index = (self.0.len() * percent / 100).min(self.0.len() - 1);
        self.0[index].as_secs_f64() * 1e3
    }
}
