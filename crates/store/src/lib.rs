//! A revisioned, watchable key-value store, in the manner of etcd: one global, monotonic revision;
//! compare-and-swap transactions over several keys; watches from a revision; compaction.
//!
//! Reads and watches are served from an in-memory multi-version [`Index`]; an engine makes writes
//! durable before it publishes them there. What was acknowledged is on disk.

mod etcd;
mod group;
mod index;
mod lock;
mod sqlite;
mod store;
mod transfer;
mod transform;
mod types;

pub use etcd::{EtcdAddress, EtcdOptions, EtcdStore};
pub use index::{HISTORY_BYTES_MAX, HISTORY_EVENTS_MAX, HistoryLimits, Index, Listing, Watch};
pub use sqlite::{DATABASE_FILE, SqliteOptions, SqliteStore};
pub use store::Store;
pub use transfer::{Contents, Place, TransferError, WriteOptions, Written};
pub use transform::{TransformError, Transformation, Transformer, is_sealed};
pub use types::{
    CommitError, Entry, Event, EventKind, Expectation, Key, Record, Revision, StoreError, Transaction, Value,
    Write,
};
