//! Timeouts of connections whose client sends no request, or reads no response.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::limits::{FIRST_REQUEST_TIMEOUT, IDLE_TIMEOUT, UNREAD_TIMEOUT};
use crate::transport::response::ResponsePermit;

/// Requests of one connection.
#[derive(Debug)]
pub(super) struct Activity {
    start: Instant,
    in_flight: AtomicU32,
    requests: AtomicU64,
    /// End of the last request, in milliseconds since the start of the connection.
    idle_since_milliseconds: AtomicU64,
    /// Responses with frames that wait for the client, by the number of the request.
    unread: Mutex<HashMap<u64, UnsentFrames>>,
}

/// Frames of a response that the connection has not sent yet.
#[derive(Debug)]
struct UnsentFrames {
    frames: usize,
    /// Time of the last progress, in milliseconds since the start of the connection.
    since_milliseconds: u64,
}

/// Reason for closing a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdleReason {
    /// The client sent no request.
    NoFirstRequest,
    /// No request was in flight for the idle timeout.
    Idle,
    /// The client read nothing of a response.
    Unread,
}

/// Request in flight, until its response is sent.
pub(super) struct InFlight {
    activity: Arc<Activity>,
    number: u64,
    /// Memory of the response; `None` until it begins, and for responses without a limit.
    _permit: Option<Arc<ResponsePermit>>,
}

impl Activity {
    pub(super) fn new(now: Instant) -> Activity {
        Activity {
            start: now,
            in_flight: AtomicU32::new(0),
            requests: AtomicU64::new(0),
            idle_since_milliseconds: AtomicU64::new(0),
            unread: Mutex::default(),
        }
    }

    /// Counts a request until the value is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        InFlight {
            activity: self.clone(),
            number,
            _permit: None,
        }
    }

    fn end(&self, now: Instant) {
        self.idle_since_milliseconds
            .store(self.since_start_milliseconds(now), Ordering::Relaxed);
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a frame that waits for the client.
    fn begin_frame(&self, number: u64, now: Instant) {
        let mut all = self.unread();
        let unread = all.entry(number).or_insert(UnsentFrames {
            frames: 0,
            since_milliseconds: 0,
        });
        unread.frames += 1;
        unread.since_milliseconds = self.since_start_milliseconds(now);
    }

    /// Ends the count of a frame.
    fn end_frame(&self, number: u64, now: Instant) {
        let mut all = self.unread();
        let Some(unread) = all.get_mut(&number) else {
            return;
        };
        unread.frames = unread.frames.saturating_sub(1);
        unread.since_milliseconds = self.since_start_milliseconds(now);
        if unread.frames == 0 {
            all.remove(&number);
        }
    }

    fn since_start_milliseconds(&self, now: Instant) -> u64 {
        let since_start = now.saturating_duration_since(self.start).as_millis();
        u64::try_from(since_start).unwrap_or(u64::MAX)
    }

    fn unread(&self) -> MutexGuard<'_, HashMap<u64, UnsentFrames>> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time until the client may have read no response for too long.
    ///
    /// # Errors
    /// [`IdleReason::Unread`] if that is so already.
    fn time_left_to_read(&self, now: Instant) -> Result<Duration, IdleReason> {
        let oldest = self
            .unread()
            .values()
            .map(|unread| unread.since_milliseconds)
            .min();
        let Some(since_milliseconds) = oldest else {
            return Ok(IDLE_TIMEOUT);
        };
        let unread_since = self.start + Duration::from_millis(since_milliseconds);
        let left = UNREAD_TIMEOUT.checked_sub(now.saturating_duration_since(unread_since));
        left.filter(|left| !left.is_zero()).ok_or(IdleReason::Unread)
    }

    /// Returns the time until the connection may be idle for too long.
    ///
    /// # Errors
    /// Reason why it is idle for too long already.
    fn time_left(&self, now: Instant) -> Result<Duration, IdleReason> {
        if self.in_flight.load(Ordering::Relaxed) > 0 {
            return self.time_left_to_read(now);
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

    /// Resolves when the connection is idle for too long, or its client reads no response.
    pub(super) async fn idle(&self) -> IdleReason {
        loop {
            match self.time_left(Instant::now()) {
                Ok(left) => tokio::time::sleep(left).await,
                Err(reason) => return reason,
            }
        }
    }
}

impl InFlight {
    /// Adds the permit for the memory of the response.
    pub(super) fn with_permit(mut self, permit: Option<Arc<ResponsePermit>>) -> InFlight {
        self._permit = permit;
        self
    }

    /// Counts a frame that waits for the client.
    pub(super) fn begin_frame(&self) {
        self.activity.begin_frame(self.number, Instant::now());
    }

    /// Ends the count of a frame: the connection has sent it, or has dropped it.
    pub(super) fn end_frame(&self) {
        self.activity.end_frame(self.number, Instant::now());
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.activity.end(Instant::now());
    }
}

#[cfg(test)]
mod tests;
