//! The in-memory multi-version index that every engine serves reads and watches from.
//!
//! Keys are ordered; a key has the versions that can still be asked for. Each change is one shared
//! [`Event`] in the history. Reads take a lock that writers hold for the memory operations of one
//! publication only, never for I/O; long lists let go of it every [`LIST_STEP_KEYS`] keys and go on at the
//! same revision.

mod chain;
mod log;
mod state;
mod watch;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use bytes::Bytes;
use tokio::sync::watch::Sender;

use self::state::{State, segment};
pub use self::watch::Watch;
use crate::lock::{read, write};
use crate::{Entry, Event, Key, Revision, StoreError};

/// Events of history kept: two minutes of 500 changes a second, so that a client that lost its connection
/// resumes its watch rather than listing again.
pub const HISTORY_EVENTS_MAX: usize = 65_536;

/// Bytes that history may cost beyond the present state: superseded and removed values, and the events
/// themselves.
pub const HISTORY_BYTES_MAX: usize = 32 << 20;

/// Keys that a list visits before it lets writers in.
const LIST_STEP_KEYS: usize = 2_048;

/// Events that a compaction forgets before it lets readers in.
const COMPACT_STEP_EVENTS: usize = 1_024;

/// How much history is kept for watches and reads in the past. The smaller bound counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Events.
    pub events_max: usize,
    /// Bytes beyond the present state.
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
    /// The entries.
    pub entries: Vec<Entry>,
    /// The revision they were read at.
    pub revision: Revision,
    /// Entries of the prefix after the last one given.
    pub remaining: usize,
}

/// What a committed transaction changed; the engine publishes it.
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    pub(crate) revision: Revision,
    pub(crate) changes: Vec<Change>,
}

/// A change, its revision inserted into the value already.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Put { key: Key, value: Bytes },
    Delete { key: Key, last: Option<Bytes> },
}

/// That something was published. Waking the watches and freeing what was forgotten takes longer than publishing, so
/// whoever publishes may do something first that somebody waits for.
#[must_use = "watches sleep until they are told"]
#[derive(Default)]
pub(crate) struct News {
    changed: Vec<Sender<()>>,
    _forgotten: Vec<Arc<Event>>,
}

impl News {
    /// Wakes the watches.
    pub(crate) fn tell(self) {
        for log in self.changed {
            log.send_replace(());
        }
    }
}

/// The index. Shared by reference; all methods may be called from any thread.
pub struct Index {
    state: RwLock<State>,
    /// The newest revision. Written under the state's write lock, after the events are in the logs.
    published: Arc<AtomicU64>,
}

impl Index {
    /// The newest revision.
    pub fn revision(&self) -> Revision {
        self.revision_of(&read(&self.state))
    }

    /// The oldest revision that can be read and watched from.
    pub fn oldest(&self) -> Revision {
        read(&self.state).oldest
    }

    /// The present value of a key.
    pub fn get(&self, key: &str) -> Option<Entry> {
        read(&self.state).newest(key)
    }

    /// The value of a key at a revision.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] or [`StoreError::Future`] if that revision cannot be read.
    pub fn get_at(&self, key: &str, at: Revision) -> Result<Option<Entry>, StoreError> {
        let state = read(&self.state);
        self.check(&state, at)?;
        Ok(state.entry_at(key, at))
    }

    /// The entries whose keys have a prefix, ascending, at a revision (the newest if `None`): those after
    /// the key `after`, at most `limit`. All from one revision, however long it takes.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] or [`StoreError::Future`] if that revision cannot be read.
    pub fn list(
        &self,
        prefix: &str,
        at: Option<Revision>,
        after: Option<&str>,
        limit: Option<usize>,
    ) -> Result<Listing, StoreError> {
        let listing = self.list_by_steps(prefix, at, after, limit, LIST_STEP_KEYS);
        match (listing, at) {
            // Overtaken by compaction between two steps: take the present state in one.
            (Err(StoreError::Compacted { .. }), None) => {
                self.list_by_steps(prefix, None, after, limit, usize::MAX)
            }
            (listing, _) => listing,
        }
    }

    /// A watch on the keys with a prefix, giving the events after a revision.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] or [`StoreError::Future`] if the history does not reach back, or up, to
    /// that revision.
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

    /// An index that starts with the given entries, ascending by key, and no history.
    pub(crate) fn restore(limits: HistoryLimits, revision: Revision, entries: Vec<Entry>) -> Index {
        let state = State::new(limits, revision, entries);
        Index {
            state: RwLock::new(state),
            published: Arc::new(AtomicU64::new(revision.0)),
        }
    }

    /// Makes committed transactions visible, ascending by revision, to readers and watches. The watches that sleep are
    /// woken by what it gives.
    pub(crate) fn publish(&self, commits: Vec<Commit>) -> News {
        let Some(newest) = commits.last().map(|commit| commit.revision) else {
            return News::default();
        };
        let mut state = write(&self.state);
        state.apply(commits);
        self.published.store(newest.0, Ordering::Release);
        let forgotten = state.forget_over_limits();
        let changed = state.take_changed();
        News {
            changed,
            _forgotten: forgotten,
        }
    }

    /// Forgets the history before a revision; letting readers in time and again.
    ///
    /// # Errors
    /// [`StoreError::Future`].
    pub(crate) fn compact(&self, revision: Revision) -> Result<(), StoreError> {
        loop {
            let mut state = write(&self.state);
            let current = self.revision_of(&state);
            if revision > current {
                return Err(StoreError::Future {
                    asked: revision,
                    current,
                });
            }
            let (forgotten, done) = state.forget_before(revision, COMPACT_STEP_EVENTS);
            // Freed outside the lock.
            drop(state);
            drop(forgotten);
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

    fn check(&self, state: &State, asked: Revision) -> Result<(), StoreError> {
        let current = self.revision_of(state);
        if asked > current {
            return Err(StoreError::Future { asked, current });
        }
        if asked < state.oldest {
            return Err(StoreError::Compacted {
                asked,
                oldest: state.oldest,
            });
        }
        Ok(())
    }
}
