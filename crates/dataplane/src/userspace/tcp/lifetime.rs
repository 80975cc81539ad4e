//! Age of relayed connections, and the maximum age that their listener sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Share of the age by which connections end earlier, at most one tenth. Connections of the same time then do not end
/// together.
const JITTER_DIVISOR: u32 = 10;

/// Maximum age of the connections of one listener. It also identifies the listener of a connection.
#[derive(Debug, Default)]
pub(crate) struct AgeLimit {
    /// Seconds; 0 for no limit.
    seconds: AtomicU32,
}

impl AgeLimit {
    /// Sets the maximum age of open and of new connections; `None` for no limit.
    pub(crate) fn set(&self, seconds: Option<u32>) {
        self.seconds.store(seconds.unwrap_or(0), Ordering::Relaxed);
    }

    fn get(&self) -> Option<Duration> {
        let seconds = self.seconds.load(Ordering::Relaxed);
        (seconds != 0).then(|| Duration::from_secs(seconds.into()))
    }
}

/// Start of a connection, and its maximum age.
#[derive(Debug)]
pub(super) struct Lifetime {
    began_at: Instant,
    limit: Arc<AgeLimit>,
    /// Part of the jitter, out of 65536, by which the connection ends earlier.
    jitter: u16,
}

impl Lifetime {
    /// Starts the lifetime of a connection. `jitter` is an arbitrary number.
    pub(super) fn start(limit: Arc<AgeLimit>, now: Instant, jitter: u16) -> Self {
        Self {
            began_at: now,
            limit,
            jitter,
        }
    }

    /// Returns the start.
    pub(super) fn began_at(&self) -> Instant {
        self.began_at
    }

    /// Returns the limit of the listener.
    pub(super) fn limit(&self) -> &Arc<AgeLimit> {
        &self.limit
    }

    /// Returns true if the connection has its maximum age.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.limit.get().is_some_and(|max| {
            let jitter = max / JITTER_DIVISOR * u32::from(self.jitter) / (u32::from(u16::MAX) + 1);
            now.saturating_duration_since(self.began_at) >= max.saturating_sub(jitter)
        })
    }
}

#[cfg(test)]
mod tests;
