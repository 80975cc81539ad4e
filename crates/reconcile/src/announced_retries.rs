//! Retries that the log announced, so that a failing key is logged once in a delay.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// The time of the announced retry of each failing key. Keys that succeed leave the table, so the keys of the queue
/// bound its size.
#[derive(Debug)]
pub(crate) struct AnnouncedRetries<K> {
    due: HashMap<K, Instant>,
}

impl<K> Default for AnnouncedRetries<K> {
    fn default() -> Self {
        Self { due: HashMap::new() }
    }
}

impl<K: Clone + Eq + Hash> AnnouncedRetries<K> {
    /// Records a failure whose retry follows after `delay`. Returns true if the log has to announce it: no retry is
    /// announced, or its time has come.
    pub(crate) fn announce(&mut self, key: &K, now: Instant, delay: Duration) -> bool {
        if self.due.get(key).is_some_and(|due| now < *due) {
            return false;
        }
        self.due.insert(key.clone(), now + delay);
        true
    }

    /// Removes a key that does not fail any more.
    pub(crate) fn forget(&mut self, key: &K) {
        self.due.remove(key);
    }
}
