//! The in-memory multi-version index that serves reads and watches of all engines.
//!
//! Keys are ordered, and each key has the versions that can still be read. Each change is one shared [`Event`] in
//! the history. Reads take a lock that writers hold only for memory operations, never for I/O. Long lists release
//! it every [`LIST_STEP_KEYS`] keys and continue at the same revision.

mod chain;
mod log;
mod state;
mod watch;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use bytes::Bytes;
use tokio::sync::watch::Sender;

use self::state::{State, segment};
pub use self::watch::Watch;
use crate::unpoisoned::{read, write};
use crate::{Entry, Event, Key, Revision, StoreError};

/// Default limit of events in the history: two minutes of 500 changes per second. A client that lost its connection can
/// then resume its watch instead of listing again.
pub const HISTORY_EVENTS_MAX: usize = 65_536;

/// Default limit of the history in bytes beyond the current state: superseded and removed values, and the events
/// themselves.
pub const HISTORY_BYTES_MAX: usize = 32 << 20;

/// Keys that a list visits before it releases the lock.
const LIST_STEP_KEYS: usize = 2_048;

/// Events that a compaction removes before it releases the lock.
const COMPACT_STEP_EVENTS: usize = 1_024;

/// Limits of the history. The stricter one applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Maximum number of events.
    pub events_max: usize,
    /// Bytes beyond the current state.
    pub bytes_max: usize,
}

impl Default for HistoryLimits {
    fn default() -> HistoryLimits {
        HistoryLimits {
            events_max: HISTORY_EVENTS_MAX,
            bytes_max: HISTORY_BYTES_MAX,
        }
    }
}

/// A page of entries, ascending by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Entries, sorted by key.
    pub entries: Vec<Entry>,
    /// Revision of the entries.
    pub revision: Revision,
    /// Number of entries of the prefix after the last returned one.
    pub remaining: usize,
}

/// Changes of a committed transaction, which the engine publishes.
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    pub(crate) revision: Revision,
    pub(crate) changes: Vec<Change>,
}

/// A change with the revision inserted into the value.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Put { key: Key, value: Bytes },
    Delete { key: Key, last: Option<Bytes> },
}

/// A pending notification of watches. Waking watches and freeing removed events takes longer than publishing, so
/// the publisher may acknowledge writes first.
#[must_use = "watches sleep until they are notified"]
#[derive(Default)]
pub(crate) struct PendingNotification {
    changed: Vec<Sender<()>>,
    _removed: Vec<Arc<Event>>,
}

impl PendingNotification {
    /// Wakes the watches.
    pub(crate) fn notify(self) {
        for log in self.changed {
            log.send_replace(());
        }
    }
}

/// A multi-version index. All methods may be called from any thread.
pub struct Index {
    state: RwLock<State>,
    /// Newest revision. Written under the write lock of the state, after the events are in the logs.
    published: Arc<AtomicU64>,
}

impl Index {
    /// Returns the newest revision.
    pub fn revision(&self) -> Revision {
        self.revision_of(&read(&self.state))
    }

    /// Returns the oldest revision that can be read and watched from.
    pub fn oldest(&self) -> Revision {
        read(&self.state).oldest
    }

    /// Returns the current entry of a key.
    pub fn get(&self, key: &str) -> Option<Entry> {
        read(&self.state).newest(key)
    }

    /// Returns the entry of a key at a revision.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Compacted`] or [`StoreError::Future`] if the revision cannot be read.
    pub fn get_at(&self, key: &str, at: Revision) -> Result<Option<Entry>, StoreError> {
        let state = read(&self.state);
        self.check(&state, at)?;
        Ok(state.entry_at(key, at))
    }

    /// Returns the entries with a prefix at a revision (the newest if `None`), ascending by key: those after the
    /// key `after`, at most `limit`. All entries belong to one revision.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Compacted`] or [`StoreError::Future`] if the revision cannot be read.
    pub fn list(
        &self,
        prefix: &str,
        at: Option<Revision>,
        after: Option<&str>,
        limit: Option<usize>,
    ) -> Result<Listing, StoreError> {
        let listing = self.list_by_steps(prefix, at, after, limit, LIST_STEP_KEYS);
        match (listing, at) {
            // Compacted between two steps: read the current state in one step.
            (Err(StoreError::Compacted { .. }), None) => {
                self.list_by_steps(prefix, None, after, limit, usize::MAX)
            }
            (listing, _) => listing,
        }
    }

    /// Watches the keys with a prefix, from the events after a revision on.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Compacted`] or [`StoreError::Future`] if the history does not contain the revision.
    ///
    /// # Example
    ///
    /// ```no_run
    /// # async fn example(store: store::SqliteStore) -> Result<(), store::StoreError> {
    /// use store::Store;
    ///
    /// let index = store.index();
    /// let listing = index.list("/services/", None, None, None)?;
    /// let mut watch = index.watch("/services/", listing.revision)?;
    /// loop {
    ///     let event = watch.next().await?;
    ///     println!("{} changed at revision {}", event.key, event.revision);
    /// }
    /// # }
    /// ```
    pub fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, StoreError> {
        if let Some(segment) = segment(prefix)
            && !read(&self.state).has_log(segment)
        {
            write(&self.state).make_log(segment);
        }
        let state = read(&self.state);
        self.check(&state, after)?;
        let reader = state.log(segment(prefix)).read_after(after);
        Ok(Watch::new(prefix, reader, self.published.clone()))
    }

    /// Creates an index with these entries, ascending by key, and no history.
    pub(crate) fn restore(limits: HistoryLimits, revision: Revision, entries: Vec<Entry>) -> Index {
        let state = State::new(limits, revision, entries);
        Index {
            state: RwLock::new(state),
            published: Arc::new(AtomicU64::new(revision.0)),
        }
    }

    /// Makes committed transactions, ascending by revision, visible to readers and watches. The result wakes
    /// sleeping watches.
    pub(crate) fn publish(&self, commits: Vec<Commit>) -> PendingNotification {
        let Some(newest) = commits.last().map(|commit| commit.revision) else {
            return PendingNotification::default();
        };
        let mut state = write(&self.state);
        state.apply(commits);
        self.published.store(newest.0, Ordering::Release);
        let removed = state.evict_over_limits();
        let changed = state.take_changed();
        PendingNotification {
            changed,
            _removed: removed,
        }
    }

    /// Removes the history before a revision, releasing the lock from time to time.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Future`] if the revision does not exist yet.
    pub(crate) fn compact(&self, revision: Revision) -> Result<(), StoreError> {
        loop {
            let mut state = write(&self.state);
            let current = self.revision_of(&state);
            if revision > current {
                return Err(StoreError::Future {
                    requested: revision,
                    current,
                });
            }
            let (removed, done) = state.compact_step(revision, COMPACT_STEP_EVENTS);
            // The events are freed outside of the lock.
            drop(state);
            drop(removed);
            if done {
                return Ok(());
            }
        }
    }

    fn list_by_steps(
        &self,
        prefix: &str,
        mut at: Option<Revision>,
        after: Option<&str>,
        limit: Option<usize>,
        step_keys: usize,
    ) -> Result<Listing, StoreError> {
        let limit = limit.unwrap_or(usize::MAX);
        let mut listing = Listing {
            entries: Vec::new(),
            revision: Revision::default(),
            remaining: 0,
        };
        let mut after: Option<Key> = after.map(Key::from);
        loop {
            let state = read(&self.state);
            let revision = at.unwrap_or_else(|| self.revision_of(&state));
            self.check(&state, revision)?;
            at = Some(revision);
            listing.revision = revision;
            match state.list_step(prefix, after.as_deref(), limit, step_keys, &mut listing) {
                Some(last) => after = Some(last),
                None => return Ok(listing),
            }
        }
    }

    fn revision_of(&self, _guard: &State) -> Revision {
        Revision(self.published.load(Ordering::Acquire))
    }

    fn check(&self, state: &State, requested: Revision) -> Result<(), StoreError> {
        let current = self.revision_of(state);
        if requested > current {
            return Err(StoreError::Future { requested, current });
        }
        if requested < state.oldest {
            return Err(StoreError::Compacted {
                requested,
                oldest: state.oldest,
            });
        }
        Ok(())
    }
}
