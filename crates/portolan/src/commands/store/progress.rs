//! Progress of a long copy on standard error.

use std::time::{Duration, Instant};

/// Time between two reports.
const PERIOD: Duration = Duration::from_secs(1);

/// Progress of a copy.
pub(super) struct Progress {
    total: usize,
    reported_at: Instant,
}

impl Progress {
    /// Returns the progress of a copy of some number of keys.
    pub(super) fn new(total: usize) -> Progress {
        Progress {
            total,
            reported_at: Instant::now(),
        }
    }

    /// Prints the number of written keys, about every second.
    pub(super) fn report(&mut self, done: usize) {
        if self.reported_at.elapsed() >= PERIOD {
            self.reported_at = Instant::now();
            eprintln!("{done} of {} keys written", self.total);
        }
    }
}
