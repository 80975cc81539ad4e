//! Idle timeouts of connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::limits::{FIRST_REQUEST_TIMEOUT, IDLE_TIMEOUT};
use crate::transport::forwarded_body::{ForwardedBody, Observer};
use crate::transport::response::Body;

/// Requests of one connection.
#[derive(Debug)]
pub(super) struct Activity {
    start: Instant,
    in_flight: AtomicU32,
    requests: AtomicU64,
    /// End of the last request, in milliseconds since the start of the connection.
    idle_since_milliseconds: AtomicU64,
}

/// Reason for closing an idle connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdleReason {
    /// The client sent no request.
    NoFirstRequest,
    /// No request was in flight for the idle timeout.
    Idle,
}

/// Request in flight, until its response is sent.
pub(super) struct InFlight(Arc<Activity>);

impl Activity {
    pub(super) fn new(now: Instant) -> Activity {
        Activity {
            start: now,
            in_flight: AtomicU32::new(0),
            requests: AtomicU64::new(0),
            idle_since_milliseconds: AtomicU64::new(0),
        }
    }

    /// Counts a request until the value is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        InFlight(self.clone())
    }

    fn end(&self, now: Instant) {
        let since_start = now.saturating_duration_since(self.start).as_millis();
        let since_start = u64::try_from(since_start).unwrap_or(u64::MAX);
        self.idle_since_milliseconds.store(since_start, Ordering::Relaxed);
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the time until the connection may be idle for too long.
    ///
    /// # Errors
    /// Reason why it is idle for too long already.
    fn time_left(&self, now: Instant) -> Result<Duration, IdleReason> {
        if self.in_flight.load(Ordering::Relaxed) > 0 {
            return Ok(IDLE_TIMEOUT);
        }
        let (limit, reason) = match self.requests.load(Ordering::Relaxed) {
            0 => (FIRST_REQUEST_TIMEOUT, IdleReason::NoFirstRequest),
            _ => (IDLE_TIMEOUT, IdleReason::Idle),
        };
        let idle_since =
            self.start + Duration::from_millis(self.idle_since_milliseconds.load(Ordering::Relaxed));
        let left = limit.checked_sub(now.saturating_duration_since(idle_since));
        left.filter(|left| !left.is_zero()).ok_or(reason)
    }

    /// Resolves when the connection is idle for too long.
    pub(super) async fn idle(&self) -> IdleReason {
        loop {
            match self.time_left(Instant::now()) {
                Ok(left) => tokio::time::sleep(left).await,
                Err(reason) => return reason,
            }
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.end(Instant::now());
    }
}

/// Body of a response. Its request is in flight until it is sent.
pub(super) type CountedBody = ForwardedBody<Body, InFlight>;

impl Observer for InFlight {}

#[cfg(test)]
mod tests;
