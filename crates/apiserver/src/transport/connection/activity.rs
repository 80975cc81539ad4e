//! Idle limits of connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::limits::{FIRST_REQUEST_TIMEOUT, IDLE_TIMEOUT};
use crate::transport::forwarded_body::{ForwardedBody, Observer};
use crate::transport::response::Body;

/// Requests of one connection.
#[derive(Debug)]
pub(super) struct Activity {
    begun: Instant,
    under_way: AtomicU32,
    requests: AtomicU64,
    /// End of the last request, in milliseconds since the start of the connection.
    quiet_since_ms: AtomicU64,
}

/// Reason for closing an idle connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// No request ever came.
    NoFirstRequest,
    /// Nothing has been under way for long.
    Idle,
}

/// A request under way, until its answer has been sent.
pub(super) struct UnderWay(Arc<Activity>);

impl Activity {
    pub(super) fn new(now: Instant) -> Activity {
        Activity {
            begun: now,
            under_way: AtomicU32::new(0),
            requests: AtomicU64::new(0),
            quiet_since_ms: AtomicU64::new(0),
        }
    }

    /// A request begins.
    pub(super) fn begin(self: &Arc<Self>) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        UnderWay(self.clone())
    }

    fn end(&self, now: Instant) {
        let since_begin = now.saturating_duration_since(self.begun).as_millis();
        let since_begin = u64::try_from(since_begin).unwrap_or(u64::MAX);
        self.quiet_since_ms.store(since_begin, Ordering::Relaxed);
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// How long to wait until the connection may have been silent for too long; an error if it has.
    fn time_left(&self, now: Instant) -> Result<Duration, Silence> {
        if self.under_way.load(Ordering::Relaxed) > 0 {
            return Ok(IDLE_TIMEOUT);
        }
        let (limit, silence) = match self.requests.load(Ordering::Relaxed) {
            0 => (FIRST_REQUEST_TIMEOUT, Silence::NoFirstRequest),
            _ => (IDLE_TIMEOUT, Silence::Idle),
        };
        let quiet_since = self.begun + Duration::from_millis(self.quiet_since_ms.load(Ordering::Relaxed));
        let left = limit.checked_sub(now.saturating_duration_since(quiet_since));
        left.filter(|left| !left.is_zero()).ok_or(silence)
    }

    /// Returns when the connection has been silent for too long.
    pub(super) async fn silence(&self) -> Silence {
        loop {
            match self.time_left(Instant::now()) {
                Ok(left) => tokio::time::sleep(left).await,
                Err(silence) => return silence,
            }
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.end(Instant::now());
    }
}

/// An answer's body, which ends its request when it has been sent.
pub(super) type Counted = ForwardedBody<Body, UnderWay>;

impl Observer for UnderWay {}

#[cfg(test)]
mod tests;
