//! Idle time of a connection or request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Time of the last activity, shared by all that cause activity.
#[derive(Debug)]
pub(crate) struct IdleClock {
    began: Instant,
    last_milliseconds: AtomicU64,
}

impl IdleClock {
    /// Creates an idle clock that starts now.
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            last_milliseconds: AtomicU64::new(0),
        }
    }

    /// Records activity.
    pub(crate) fn touch(&self) {
        let elapsed = self.began.elapsed().as_millis();
        self.last_milliseconds
            .store(u64::try_from(elapsed).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns the end of an idle timeout, if no activity follows.
    pub(crate) fn deadline(&self, timeout: Duration) -> Instant {
        // Keeps the sum within the range of the clock.
        let timeout = timeout.min(Duration::from_secs(100 * 365 * 24 * 3600));
        self.began + Duration::from_millis(self.last_milliseconds.load(Ordering::Relaxed)) + timeout
    }

    /// Completes when nothing has happened for `timeout`.
    pub(crate) async fn expired(&self, timeout: Duration) {
        loop {
            let until = self.deadline(timeout);
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}
