//! Health of a backend by its checks. Pure: times are durations since a fixed epoch.

use std::time::Duration;

use crate::settings::HealthCheck;

/// Shortest interval: a backend is checked at most ten times per second.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Health of a backend. It starts as healthy, because its endpoint is ready, until enough checks in a row fail.
#[derive(Clone, Debug)]
pub(super) struct HealthState {
    interval: Duration,
    healthy_threshold: u32,
    unhealthy_threshold: u32,
    is_healthy: bool,
    /// Results in a row that contradict `is_healthy`.
    contradictions: u32,
    due: Duration,
    is_running: bool,
}

impl HealthState {
    /// Creates the state of a new backend. `chance`, from the whole range of numbers, spreads first checks over an
    /// interval, so that not all backends are checked at once.
    pub(super) fn new(check: &HealthCheck, now: Duration, chance: u32) -> Self {
        let interval = interval(check);
        let share = f64::from(chance) / f64::from(u32::MAX);
        Self {
            interval,
            healthy_threshold: check.healthy_threshold.max(1),
            unhealthy_threshold: check.unhealthy_threshold.max(1),
            is_healthy: true,
            contradictions: 0,
            due: now + interval.mul_f64(share),
            is_running: false,
        }
    }

    /// Applies changed settings and keeps the state.
    pub(super) fn set(&mut self, check: &HealthCheck, now: Duration) {
        self.interval = interval(check);
        self.healthy_threshold = check.healthy_threshold.max(1);
        self.unhealthy_threshold = check.unhealthy_threshold.max(1);
        self.due = self.due.min(now + self.interval);
    }

    /// Returns true if the backend is healthy.
    pub(super) fn is_healthy(&self) -> bool {
        self.is_healthy
    }

    /// Returns the time of the next check; `None` while one runs.
    pub(super) fn due(&self) -> Option<Duration> {
        (!self.is_running).then_some(self.due)
    }

    /// Records that a check starts. Its result goes to [`HealthState::count`].
    pub(super) fn start(&mut self, now: Duration) {
        self.is_running = true;
        // The interval counts from the start of one check to the start of the next. Missed checks are not repeated.
        self.due = (self.due + self.interval).max(now);
    }

    /// Counts a result. Returns true if the health changes.
    pub(super) fn count(&mut self, is_success: bool) -> bool {
        self.is_running = false;
        if is_success == self.is_healthy {
            self.contradictions = 0;
            return false;
        }
        self.contradictions += 1;
        let threshold = if self.is_healthy {
            self.unhealthy_threshold
        } else {
            self.healthy_threshold
        };
        if self.contradictions < threshold {
            return false;
        }
        (self.is_healthy, self.contradictions) = (is_success, 0);
        true
    }
}

fn interval(check: &HealthCheck) -> Duration {
    check.interval.max(INTERVAL_MIN)
}

#[cfg(test)]
mod tests;
