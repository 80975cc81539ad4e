//! Fencing: a permission to write that expires. A process that lost its lease, or was frozen without detecting it,
//! therefore writes nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::clock::WallClock;

/// A permission to write with a deadline. Clones share it.
///
/// The larger duration of monotonic clock and wall clock counts. The monotonic clock stops while a host is suspended,
/// and the wall clock can be set back.
///
/// ```
/// use std::time::Duration;
///
/// use client::{Fence, Moment, WallClock};
///
/// let clock = WallClock::system();
/// let fence = Fence::closed(clock.clone());
/// assert_eq!(fence.remaining(), Duration::ZERO);
/// fence.open(Moment::now(&clock), Duration::from_secs(60));
/// assert!(fence.remaining() > Duration::ZERO);
/// ```
#[derive(Clone, Debug)]
pub struct Fence {
    clock: WallClock,
    permission: Arc<Mutex<Option<WritePermission>>>,
    /// Time of the last write that was abandoned without a response.
    abandoned_write: Arc<Mutex<Option<Moment>>>,
}

/// Permission to write, from its start for a duration.
#[derive(Clone, Copy, Debug)]
struct WritePermission {
    since: Moment,
    duration: Duration,
}

/// A point in time on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    monotonic: Instant,
    wall: Timestamp,
}

impl Moment {
    /// Returns the current moment.
    pub fn now(clock: &WallClock) -> Self {
        Self {
            monotonic: Instant::now(),
            wall: clock.now(),
        }
    }

    /// Returns the time of the monotonic clock.
    pub fn monotonic(&self) -> std::time::Instant {
        self.monotonic.into_std()
    }

    /// Returns the duration since an earlier moment, by the clock that shows more.
    pub fn since(&self, earlier: &Self) -> Duration {
        let monotonic = self.monotonic.saturating_duration_since(earlier.monotonic);
        let wall = self.wall.duration_since(earlier.wall);
        monotonic.max(Duration::try_from(wall).unwrap_or(Duration::ZERO))
    }
}

impl Fence {
    /// Returns a closed fence.
    pub fn closed(clock: WallClock) -> Self {
        Self {
            clock,
            permission: Arc::default(),
            abandoned_write: Arc::default(),
        }
    }

    /// Permits writes until `duration` after `since`.
    pub fn open(&self, since: Moment, duration: Duration) {
        *self.permission.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(WritePermission { since, duration });
    }

    /// Denies further writes.
    pub fn close(&self) {
        *self.permission.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Records a write that was abandoned without a response and may still arrive.
    pub fn record_abandoned_write(&self) {
        let now = Moment::now(&self.clock);
        *self
            .abandoned_write
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    /// Returns true if a write that was abandoned within this duration may still arrive.
    pub fn has_abandoned_write(&self, within: Duration) -> bool {
        let abandoned_write = *self
            .abandoned_write
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        abandoned_write.is_some_and(|since| Moment::now(&self.clock).since(&since) < within)
    }

    /// Returns the remaining duration of the permission; zero without one.
    pub fn remaining(&self) -> Duration {
        let permission = *self.permission.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(WritePermission { since, duration }) = permission else {
            return Duration::ZERO;
        };
        duration.saturating_sub(Moment::now(&self.clock).since(&since))
    }
}
