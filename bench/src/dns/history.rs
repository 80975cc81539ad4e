//! What was written and when, to tell whether an answer is right, or by how much it is out of date.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// When each version of an object began to be written, and when the API had taken it.
#[derive(Default)]
pub struct History(Mutex<Vec<(Instant, Option<Instant>)>>);

impl History {
    /// The number of a version that is about to be written.
    pub fn begin(&self) -> usize {
        let mut versions = self.versions();
        versions.push((Instant::now(), None));
        versions.len() - 1
    }

    /// Notes that the API has taken a version.
    pub fn written(&self, version: usize) {
        self.versions()[version].1 = Some(Instant::now());
    }

    /// For how long the newest version that an answer agrees with was out of date when its question was sent; nothing
    /// if it agrees with none that was begun.
    pub fn age(&self, asked: Instant, agrees: impl Fn(usize) -> bool) -> Option<Duration> {
        let versions = self.versions();
        let version = (0..versions.len()).rev().find(|version| agrees(*version))?;
        let replaced = versions.get(version + 1).and_then(|(_, written)| *written);
        Some(replaced.map_or(Duration::ZERO, |at| asked.saturating_duration_since(at)))
    }

    /// Whether nothing was written since some time before a question was sent, and nothing is being written.
    pub fn is_settled(&self, asked: Instant, for_long: Duration) -> bool {
        let versions = self.versions();
        let last = versions.last().and_then(|(_, written)| *written);
        last.is_some_and(|at| asked.saturating_duration_since(at) > for_long)
    }

    fn versions(&self) -> MutexGuard<'_, Vec<(Instant, Option<Instant>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
