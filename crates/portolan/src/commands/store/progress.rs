//! How far a long copy is, for whoever waits for it.

use std::time::{Duration, Instant};

/// How often something is said.
const PERIOD: Duration = Duration::from_secs(1);

/// Says on standard error how much is done, about every second.
pub(super) struct Progress {
    total: usize,
    said: Instant,
}

impl Progress {
    pub(super) fn new(total: usize) -> Progress {
        Progress {
            total,
            said: Instant::now(),
        }
    }

    pub(super) fn tell(&mut self, done: usize) {
        if self.said.elapsed() >= PERIOD {
            self.said = Instant::now();
            eprintln!("{done} of {} keys written", self.total);
        }
    }
}
