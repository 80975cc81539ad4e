//! Since when nothing has happened.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// The time of what happened last, shared by all who make something happen.
#[derive(Debug)]
pub struct Silence {
    began: Instant,
    last_ms: AtomicU64,
}

impl Silence {
    /// Something happens now.
    pub fn new() -> Self {
        Self {
            began: Instant::now(),
            last_ms: AtomicU64::new(0),
        }
    }

    /// Something happened.
    pub fn broken(&self) {
        let elapsed = self.began.elapsed().as_millis();
        self.last_ms
            .store(u64::try_from(elapsed).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// When it will have lasted so long, if nothing happens.
    pub fn lasts_until(&self, timeout: Duration) -> Instant {
        // A timeout that no clock reaches is as good as a century.
        let timeout = timeout.min(Duration::from_secs(100 * 365 * 24 * 3600));
        self.began + Duration::from_millis(self.last_ms.load(Ordering::Relaxed)) + timeout
    }

    /// Returns when it has lasted so long.
    pub async fn lasts(&self, timeout: Duration) {
        loop {
            let until = self.lasts_until(timeout);
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}
