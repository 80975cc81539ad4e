//! Wall clock, which tests replace.

use std::sync::Arc;

use jiff::Timestamp;

/// A wall clock, for timestamps of objects. It may jump, so safety never depends on it alone. Tests use clocks of
/// their own.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl WallClock {
    /// Returns the clock of the system.
    pub fn system() -> Self {
        Self::of(Timestamp::now)
    }

    /// Returns a clock that reads `now`.
    pub fn of(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl std::fmt::Debug for WallClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WallClock({})", self.now())
    }
}
