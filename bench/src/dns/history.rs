//! Times of writes, by which the age of a response is determined.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Versions of an object: start of the write, and its acknowledgement.
#[derive(Default)]
pub(super) struct History(Mutex<Vec<(Instant, Option<Instant>)>>);

impl History {
    /// Starts the write of a version. Returns its number.
    pub(super) fn begin(&self) -> usize {
        let mut versions = self.versions();
        versions.push((Instant::now(), None));
        versions.len() - 1
    }

    /// Records the acknowledgement of a version.
    pub(super) fn written(&self, version: usize) {
        self.versions()[version].1 = Some(Instant::now());
    }

    /// Time for which the newest matching version had been replaced when the query was sent; `None` if no
    /// version matches.
    pub(super) fn age(&self, queried_at: Instant, matches: impl Fn(usize) -> bool) -> Option<Duration> {
        let versions = self.versions();
        let version = (0..versions.len()).rev().find(|version| matches(*version))?;
        let replaced = versions.get(version + 1).and_then(|(_, written)| *written);
        Some(replaced.map_or(Duration::ZERO, |at| queried_at.saturating_duration_since(at)))
    }

    /// Returns true if the last write was acknowledged more than `duration` before the query.
    pub(super) fn is_stable(&self, queried_at: Instant, duration: Duration) -> bool {
        let versions = self.versions();
        let last = versions.last().and_then(|(_, written)| *written);
        last.is_some_and(|at| queried_at.saturating_duration_since(at) > duration)
    }

    fn versions(&self) -> MutexGuard<'_, Vec<(Instant, Option<Instant>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
