//! Passive ejection: a backend that refuses again and again is left in peace for a while. Pure; times are durations since
//! any moment that stays the same.

use std::time::Duration;

/// Failures in a row until a backend is ejected.
const FAILURES_MAX: u32 = 3;
/// How long it is ejected for the first time; each further time in a row twice as long.
const PAUSE_FIRST: Duration = Duration::from_secs(5);
/// The longest time.
const PAUSE_MAX: Duration = Duration::from_secs(120);

/// What is remembered of a backend's failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ejection {
    /// Failures in a row.
    failures: u32,
    /// Ejections in a row.
    times: u32,
    until: Duration,
}

impl Ejection {
    /// Counts a failure; until when it is ejected, if it is.
    pub fn failed(&mut self, now: Duration) -> Option<Duration> {
        if now < self.until {
            // Those that were under way when it was ejected say nothing new.
            return Some(self.until);
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures < FAILURES_MAX {
            return None;
        }
        let pause = PAUSE_FIRST.saturating_mul(1 << self.times.min(16)).min(PAUSE_MAX);
        self.times = self.times.saturating_add(1);
        // When it comes back, one more failure is enough.
        self.failures = FAILURES_MAX - 1;
        self.until = now + pause;
        Some(self.until)
    }

    /// It works: all is forgotten.
    pub fn succeeded(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests;
