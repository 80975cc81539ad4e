//! Limits of the health checks of each namespace. One thread makes the checks of all Services. Without limits, the checks
//! of one tenant could occupy it, and those of others would exceed their timeouts.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{self, Instant};

/// Checks of a namespace at the same time. Each has a file descriptor.
const CONCURRENT_MAX: usize = 256;
/// Shortest time between the starts of two checks of a namespace.
const START_INTERVAL: Duration = Duration::from_millis(1);

/// Limits of one namespace, which all of its ports share.
#[derive(Debug)]
pub(crate) struct CheckLimits {
    running: Semaphore,
    next_start: Mutex<Instant>,
}

impl CheckLimits {
    /// Creates the limits of a namespace without checks.
    pub(crate) fn new() -> Self {
        Self {
            running: Semaphore::new(CONCURRENT_MAX),
            next_start: Mutex::new(Instant::now()),
        }
    }

    /// Waits until another check may start. It counts until the permit is dropped.
    pub(crate) async fn start(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        let permit = self.running.acquire().await.ok();
        let now = Instant::now();
        let start = self.reserve(now);
        if start > now {
            time::sleep_until(start).await;
        }
        permit
    }

    /// Returns the time at which the next check may start.
    fn reserve(&self, now: Instant) -> Instant {
        let mut next = self.next_start.lock().unwrap_or_else(PoisonError::into_inner);
        let start = now.max(*next);
        *next = start + START_INTERVAL;
        start
    }
}

#[cfg(test)]
mod tests;
