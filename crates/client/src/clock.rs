//! The time of day.

use std::sync::Arc;

use jiff::Timestamp;

/// A clock that tells the time of day, as objects state it. It may jump; nothing that must not be wrong is
/// measured with it alone. Tests have clocks of their own.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl WallClock {
    /// This machine's clock.
    pub fn system() -> Self {
        Self::of(Timestamp::now)
    }

    /// A clock that tells what `now` does.
    pub fn of(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl std::fmt::Debug for WallClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WallClock({})", self.now())
    }
}
