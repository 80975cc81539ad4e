//! The store's vocabulary: revisions, keys, values with a place for their revision, transactions.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

/// A point in the store's history. Every committed transaction has one, larger than all before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A key, `/`-separated like a path: `/services/default/web`.
pub type Key = Arc<str>;

/// A value on its way in. An object carries its own revision in its encoded form, but the revision is
/// known only at commit, so the value says at which byte the decimal revision is to be inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The bytes, without the revision.
    pub bytes: Bytes,
    /// Offset at which the decimal revision is inserted; `None` for values that do not carry it.
    pub revision_at: Option<usize>,
}

impl Value {
    /// The bytes as readers see them, with `revision` inserted in decimal; exactly as large as needed.
    /// `None` if `revision_at` lies beyond the end.
    pub fn inscribed(&self, revision: Revision) -> Option<Bytes> {
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

/// A stored key and value, as readers see it; the revision is inserted already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The value, shared by all readers and watchers.
    pub value: Bytes,
    /// Revision that created the key.
    pub created: Revision,
    /// Revision of the last write.
    pub modified: Revision,
}

/// A stored key and value as it lies in an engine: the revision is not inserted yet. What is copied from store to
/// store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: Key,
    /// The value, and where its revision belongs.
    pub value: Value,
    /// Revision that created the key.
    pub created: Revision,
    /// Revision of the last write.
    pub modified: Revision,
}

impl Record {
    /// The record as readers see it. `None` if the place for the revision lies beyond the value's end.
    pub fn into_entry(self) -> Option<Entry> {
        let value = self.value.inscribed(self.modified)?;
        Some(Entry {
            key: self.key,
            value,
            created: self.created,
            modified: self.modified,
        })
    }
}

/// What must hold of a key for a transaction to be carried out.
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
    /// Whether it holds of a key that was last written at `modified`, if it exists.
    pub(crate) fn holds(self, modified: Option<Revision>) -> bool {
        match self {
            Expectation::Absent => modified.is_none(),
            Expectation::Present => modified.is_some(),
            Expectation::At(revision) => modified == Some(revision),
        }
    }
}

/// One change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets a key.
    Put(Key, Value),
    /// Removes a key; removing an absent key is no change. Watchers get `last` with the deletion's
    /// revision inserted, or the stored value as it was if `last` is not given.
    Delete {
        /// The key.
        key: Key,
        /// The object as it was at its deletion, for watchers.
        last: Option<Value>,
    },
}

/// Writes that happen together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// What must hold.
    pub expectations: Vec<(Key, Expectation)>,
    /// What is done. A key may stand here once. A transaction that changes nothing (no writes, or only
    /// deletions of absent keys) gets no revision of its own but the newest one.
    pub writes: Vec<Write>,
}

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The key came into being.
    Created,
    /// The key existed and got another value.
    Updated,
    /// The key was removed; the event's value is the last one.
    Deleted,
}

/// One change, as watchers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The key.
    pub key: Key,
    /// The new value, or the last one of a removed key.
    pub value: Bytes,
    /// The value before, if there was one: selectors need it to tell who leaves.
    pub previous: Option<Bytes>,
    /// When.
    pub revision: Revision,
}

/// Why a read or a watch cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The history before `oldest` is gone; read the present state and start from there.
    #[error("revision {asked} has been compacted; the oldest is {oldest}")]
    Compacted {
        /// What was asked for.
        asked: Revision,
        /// The oldest revision that can be served.
        oldest: Revision,
    },
    /// The revision lies in the future; ask again later.
    #[error("revision {asked} is larger than the current one, {current}")]
    Future {
        /// What was asked for.
        asked: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// The watcher did not keep up and was cut; watch again from the last revision seen.
    #[error("the watcher fell {lag} events behind and was cut")]
    Lagged {
        /// Events it was behind.
        lag: usize,
    },
    /// The engine cannot write now (disk full, read-only …); retrying later may help.
    #[error("the store cannot write: {reason}")]
    Unavailable {
        /// What the engine said.
        reason: String,
    },
    /// Another process has the data directory open; retrying helps when it has ended.
    #[error("the data directory {} is in use by another process", directory.display())]
    InUse {
        /// The directory.
        directory: PathBuf,
    },
    /// The data on disk cannot be used; retrying does not help.
    #[error("the store's data cannot be used: {reason}")]
    Corrupt {
        /// What is wrong, and what to do.
        reason: String,
    },
}

/// Why a transaction was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// An expectation did not hold; nothing was written. Read again and decide anew.
    #[error("{key} is not as expected")]
    Conflict {
        /// The first key that was not as expected.
        key: Key,
        /// What is there, if anything.
        current: Option<Entry>,
    },
    /// The transaction makes no sense: a key is written twice, or a value's `revision_at` lies beyond its
    /// end. A mistake of the caller; retrying does not help.
    #[error("the transaction is malformed at {key}: {reason}")]
    Malformed {
        /// The key in question.
        key: Key,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The engine failed; whether the transaction happened is told by reading again.
    #[error(transparent)]
    Store(#[from] StoreError),
}
