//! Ejection of backends that fail repeatedly (passive health check). Pure: times are durations since a fixed
//! epoch.

use std::time::Duration;

/// Number of failures in a row until a backend is ejected.
const FAILURES_MAX: u32 = 3;
/// Duration of the first ejection. Each further one in a row is twice as long.
const DURATION_FIRST: Duration = Duration::from_secs(5);
/// Longest ejection.
const DURATION_MAX: Duration = Duration::from_secs(120);

/// Failures of a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ejection {
    /// Failures in a row.
    failures: u32,
    /// Ejections in a row.
    ejections: u32,
    until: Duration,
}

impl Ejection {
    /// Counts a failure. Returns the end of the ejection if the backend is ejected.
    pub(super) fn count_failure(&mut self, now: Duration) -> Option<Duration> {
        if now < self.until {
            // Connections that were opened before the ejection do not prolong it.
            return Some(self.until);
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures < FAILURES_MAX {
            return None;
        }
        let factor = 1 << self.ejections.min(16);
        let duration = DURATION_FIRST.saturating_mul(factor).min(DURATION_MAX);
        self.ejections = self.ejections.saturating_add(1);
        // After the ejection, one more failure is enough.
        self.failures = FAILURES_MAX - 1;
        self.until = now + duration;
        Some(self.until)
    }
}

#[cfg(test)]
mod tests;
