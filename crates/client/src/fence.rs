//! A permission to write that ends by itself, so that a process which lost its lease, or was stopped for a
//! while and does not know it, writes nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::clock::WallClock;

/// Whether writes may be sent, and for how long. Clones are the same permission.
///
/// Time is measured with the steady clock and the time of day at once, and the one that went further counts:
/// the steady clock stands still while a machine is suspended, the time of day can be set back.
#[derive(Clone, Debug)]
pub struct Fence {
    clock: WallClock,
    permission: Arc<Mutex<Option<Permission>>>,
    /// When a write was last given up without an answer.
    doubt: Arc<Mutex<Option<Moment>>>,
}

#[derive(Clone, Copy, Debug)]
struct Permission {
    since: Moment,
    lasts: Duration,
}

/// A moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    steady: Instant,
    wall: Timestamp,
}

impl Moment {
    /// Now.
    pub fn now(clock: &WallClock) -> Self {
        Self {
            steady: Instant::now(),
            wall: clock.now(),
        }
    }

    /// The steady clock's side.
    pub fn steady(&self) -> std::time::Instant {
        self.steady.into_std()
    }

    /// How long ago an earlier moment was, by the clock that says more.
    pub fn since(&self, earlier: &Self) -> Duration {
        let steady = self.steady.saturating_duration_since(earlier.steady);
        let wall = self.wall.duration_since(earlier.wall);
        steady.max(Duration::try_from(wall).unwrap_or(Duration::ZERO))
    }
}

impl Fence {
    /// A closed fence.
    pub fn closed(clock: WallClock) -> Self {
        Self {
            clock,
            permission: Arc::default(),
            doubt: Arc::default(),
        }
    }

    /// Permits writes until `lasts` after `since`.
    pub fn open(&self, since: Moment, lasts: Duration) {
        *self.permission.lock().unwrap_or_else(PoisonError::into_inner) = Some(Permission { since, lasts });
    }

    /// Permits no writes any more.
    pub fn close(&self) {
        *self.permission.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// A write was given up without an answer: it may still be on its way.
    pub fn doubt(&self) {
        let now = Moment::now(&self.clock);
        *self.doubt.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    /// Whether a write that was given up within this time may still be on its way.
    pub fn is_in_doubt(&self, within: Duration) -> bool {
        let doubt = *self.doubt.lock().unwrap_or_else(PoisonError::into_inner);
        doubt.is_some_and(|since| Moment::now(&self.clock).since(&since) < within)
    }

    /// For how long writes are permitted from now on; zero if they are not.
    pub fn remaining(&self) -> Duration {
        let permission = *self.permission.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Permission { since, lasts }) = permission else {
            return Duration::ZERO;
        };
        lasts.saturating_sub(Moment::now(&self.clock).since(&since))
    }
}
