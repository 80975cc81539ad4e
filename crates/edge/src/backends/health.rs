//! What the answers of health checks mean: when a backend is asked, and whether it is used. Pure; times are durations since
//! any moment that stays the same.

use std::time::Duration;

use crate::settings::HealthCheck;

/// A backend is asked ten times a second at most.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// A backend's health. It is used until enough checks in a row have failed: its endpoint says that it is ready.
#[derive(Clone, Debug)]
pub struct Health {
    interval: Duration,
    healthy_threshold: u32,
    unhealthy_threshold: u32,
    is_healthy: bool,
    /// Answers in a row that speak against what it is held for.
    against: u32,
    due: Duration,
    is_asked: bool,
}

impl Health {
    /// Of a backend that has just been seen. `chance`, of the whole range, spreads first checks over an interval, so that
    /// not all backends are asked at once.
    pub fn new(check: &HealthCheck, now: Duration, chance: u32) -> Self {
        let interval = interval(check);
        let share = f64::from(chance) / f64::from(u32::MAX);
        Self {
            interval,
            healthy_threshold: check.healthy_threshold.max(1),
            unhealthy_threshold: check.unhealthy_threshold.max(1),
            is_healthy: true,
            against: 0,
            due: now + interval.mul_f64(share),
            is_asked: false,
        }
    }

    /// Takes over changed settings; what is known stays.
    pub fn set(&mut self, check: &HealthCheck, now: Duration) {
        self.interval = interval(check);
        self.healthy_threshold = check.healthy_threshold.max(1);
        self.unhealthy_threshold = check.unhealthy_threshold.max(1);
        self.due = self.due.min(now + self.interval);
    }

    /// Whether it is used.
    pub fn is_healthy(&self) -> bool {
        self.is_healthy
    }

    /// When it is asked next; nothing while it is asked.
    pub fn due(&self) -> Option<Duration> {
        (!self.is_asked).then_some(self.due)
    }

    /// It is asked now; the answer is to be counted by [`Health::count`].
    pub fn begin(&mut self, now: Duration) {
        self.is_asked = true;
        // From one check's beginning to the next one's; those that were missed are not made up for.
        self.due = (self.due + self.interval).max(now);
    }

    /// Counts an answer; whether it changes what the backend is held for.
    pub fn count(&mut self, is_good: bool) -> bool {
        self.is_asked = false;
        if is_good == self.is_healthy {
            self.against = 0;
            return false;
        }
        self.against += 1;
        let threshold = match self.is_healthy {
            true => self.unhealthy_threshold,
            false => self.healthy_threshold,
        };
        if self.against < threshold {
            return false;
        }
        (self.is_healthy, self.against) = (is_good, 0);
        true
    }
}

/// Never nothing, whatever the settings say.
fn interval(check: &HealthCheck) -> Duration {
    check.interval.max(INTERVAL_MIN)
}

#[cfg(test)]
mod tests;
