//! Demand for the caches: requests and streams of readers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Time without readers after which the caches are dropped: a reload of the page finds its history again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Demand for the caches.
#[derive(Debug, Default)]
pub(super) struct Demand {
    readers: AtomicUsize,
    latest: Mutex<Option<Instant>>,
    begun: Notify,
}

/// Reader that stays until it is dropped.
#[derive(Debug)]
pub struct Reader(Arc<Demand>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.touch();
        self.0.readers.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Demand {
    /// Records that a reader exists.
    pub(super) fn touch(&self) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.begun.notify_one();
    }

    /// Returns a record of a reader that stays.
    pub(super) fn reader(demand: &Arc<Self>) -> Reader {
        demand.readers.fetch_add(1, Ordering::AcqRel);
        demand.touch();
        Reader(Arc::clone(demand))
    }

    /// Returns the number of readers that stay.
    pub(super) fn readers(&self) -> usize {
        self.readers.load(Ordering::Acquire)
    }

    /// Resolves when there is demand.
    pub(super) async fn requested(&self) {
        while !self.exists() {
            self.begun.notified().await;
        }
    }

    /// Resolves when the demand has ended.
    pub(super) async fn ended(&self, period: Duration) {
        while self.exists() {
            tokio::time::sleep(period).await;
        }
    }

    fn exists(&self) -> bool {
        let latest = *self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = latest.is_some_and(|at| at.elapsed() < IDLE_TIMEOUT);
        is_recent || self.readers() > 0
    }
}

#[cfg(test)]
mod tests;
