//! Types of the store: revisions, keys, values, transactions, events and errors.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

/// A version of the store. Each committed transaction has a revision larger than all earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A key, `/`-separated like a path: `/services/default/web`.
pub type Key = Arc<str>;

/// A value to be written. An object contains its own revision, which is known at commit only. The value therefore
/// contains the offset at which the store inserts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Bytes without the revision.
    pub bytes: Bytes,
    /// Offset at which the decimal revision is inserted; `None` for values without one.
    pub revision_at: Option<usize>,
}

impl Value {
    /// Returns the bytes with `revision` inserted in decimal, in an allocation of exactly that size; `None` if
    /// `revision_at` is out of bounds.
    ///
    /// ```
    /// use store::{Revision, Value};
    ///
    /// let value = Value { bytes: r#"{"version":""}"#.into(), revision_at: Some(12) };
    /// assert_eq!(value.with_revision(Revision(42)).expect("in bounds"), r#"{"version":"42"}"#);
    /// ```
    pub fn with_revision(&self, revision: Revision) -> Option<Bytes> {
        let Some(at) = self.revision_at else {
            return Some(Bytes::copy_from_slice(&self.bytes));
        };
        let (head, tail) = self.bytes.split_at_checked(at)?;
        let digits = revision.to_string();
        let mut whole = Vec::with_capacity(self.bytes.len() + digits.len());
        whole.extend_from_slice(head);
        whole.extend_from_slice(digits.as_bytes());
        whole.extend_from_slice(tail);
        Some(Bytes::from(whole))
    }
}

/// A stored key and value with the revision inserted, as readers get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Key of the object.
    pub key: Key,
    /// Value, shared by all readers and watchers.
    pub value: Bytes,
    /// Revision that created the key.
    pub created: Revision,
    /// Revision of the last write.
    pub modified: Revision,
}

/// A stored key and value without the revision inserted, as an engine stores it and copies between stores contain
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Key of the object.
    pub key: Key,
    /// Value, with the offset of its revision.
    pub value: Value,
    /// Revision that created the key.
    pub created: Revision,
    /// Revision of the last write.
    pub modified: Revision,
}

impl Record {
    /// Returns the record as readers get it; `None` if the offset of the revision is out of bounds.
    pub fn into_entry(self) -> Option<Entry> {
        let value = self.value.with_revision(self.modified)?;
        Some(Entry {
            key: self.key,
            value,
            created: self.created,
            modified: self.modified,
        })
    }
}

/// Precondition of a transaction about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// The key does not exist.
    Absent,
    /// The key exists and was last written at this revision.
    At(Revision),
    /// The key exists.
    Present,
}

impl Expectation {
    /// Returns true if the expectation holds for a key last written at `modified`; `None` means that the key does
    /// not exist.
    pub(crate) fn holds(self, modified: Option<Revision>) -> bool {
        match self {
            Expectation::Absent => modified.is_none(),
            Expectation::Present => modified.is_some(),
            Expectation::At(revision) => modified == Some(revision),
        }
    }
}

/// A change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets a key.
    Put(Key, Value),
    /// Removes a key; removing an absent key changes nothing. Watchers get `last` with the revision of the deletion
    /// inserted, or without `last` the stored value.
    Delete {
        /// Key of the object.
        key: Key,
        /// Last state of the object, for watchers.
        last: Option<Value>,
    },
}

/// Writes that are applied atomically.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Preconditions; all must hold, or nothing is written.
    pub expectations: Vec<(Key, Expectation)>,
    /// Changes, at most one per key. A transaction without effect (no writes, or only deletions of absent keys)
    /// gets the newest revision instead of a new one.
    pub writes: Vec<Write>,
}

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The key was created.
    Created,
    /// The key existed and its value was replaced.
    Updated,
    /// The key was removed; the event contains its last value.
    Deleted,
}

/// A change, as watchers get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Kind of the change.
    pub kind: EventKind,
    /// Key of the changed object.
    pub key: Key,
    /// New value, or the last value of a removed key.
    pub value: Bytes,
    /// Previous value, if there was one; selectors need it to detect objects that no longer match.
    pub previous: Option<Bytes>,
    /// Revision of the change.
    pub revision: Revision,
}

/// Failure of a read, a watch or an engine.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The history before `oldest` is compacted; read the current state and watch from there.
    #[error(
        "expected revision {oldest} or later, found {requested}, which is compacted; read the current state"
    )]
    Compacted {
        /// Requested revision.
        requested: Revision,
        /// Oldest revision that can be served.
        oldest: Revision,
    },
    /// The revision does not exist yet; retry later.
    #[error("expected a revision up to the current one, {current}, found {requested}; retry later")]
    Future {
        /// Requested revision.
        requested: Revision,
        /// Newest revision.
        current: Revision,
    },
    /// The history does not contain the next event of a slow watch any more; list again, and watch from the revision of
    /// the list.
    #[error(
        "the log removed {lag} events that the watch had not read; read the current state and watch again"
    )]
    Lagged {
        /// Number of missed events.
        lag: usize,
    },
    /// The engine cannot read or write at present (disk full, no server …); a retry may succeed.
    #[error("the store is unavailable: {reason}")]
    Unavailable {
        /// Error of the engine.
        reason: String,
    },
    /// Another process uses the data directory; retry after it has exited.
    #[error(
        "the data directory {} is in use by another process; stop that process, or choose another directory",
        directory.display()
    )]
    InUse {
        /// Data directory.
        directory: PathBuf,
    },
    /// The data on disk cannot be used; a retry fails as well.
    #[error("the store's data cannot be used: {reason}")]
    Corrupt {
        /// Description of the fault and its remedy.
        reason: String,
    },
}

/// Failure of a transaction.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// An expectation does not hold, and nothing was written. A retry helps after a new read and decision.
    #[error("{key} differs from the expected state; read it again")]
    Conflict {
        /// First key whose expectation does not hold.
        key: Key,
        /// Current entry, if there is one.
        current: Option<Entry>,
    },
    /// The transaction is malformed: it writes a key twice, or a `revision_at` is out of bounds. A retry fails as
    /// well.
    #[error("the transaction is malformed at {key}: {reason}")]
    Malformed {
        /// Affected key.
        key: Key,
        /// Description of the fault.
        reason: &'static str,
    },
    /// The engine failed. Only a later read shows if the transaction was committed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
