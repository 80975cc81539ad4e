//! The earliest time of the next attempt to schedule a Pod that fits on no Node.

use std::time::{Duration, Instant};

/// The attempts to schedule a Pod. Each change of a Node or Pod leads to a further one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempts {
    failures: u32,
    /// The Pod is not retried earlier.
    pub(super) not_before: Instant,
}

impl Attempts {
    /// The time until the second attempt. It doubles with each further attempt.
    const DELAY_MIN: Duration = Duration::from_millis(5);
    /// The longest time between two attempts: upstream's `podMaxBackoffSeconds`.
    const DELAY_MAX: Duration = Duration::from_secs(10);

    /// Adds an attempt that failed at `now`. Attempts before the end of the delay count as one.
    pub(super) fn failed(before: Option<Self>, now: Instant) -> Self {
        if let Some(attempts) = before.filter(|attempts| now < attempts.not_before) {
            return attempts;
        }
        let failures = before.map_or(0, |attempts| attempts.failures);
        let delay = Self::DELAY_MIN.saturating_mul(1 << failures.min(16));
        Self {
            failures: failures.saturating_add(1),
            not_before: now + delay.min(Self::DELAY_MAX),
        }
    }
}

#[cfg(test)]
mod tests;
