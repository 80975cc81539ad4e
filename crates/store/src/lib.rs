//! A revisioned, watchable key-value store in the manner of etcd. It has one global, monotonic revision,
//! compare-and-swap transactions over several keys, watches from a revision, and compaction.
//!
//! An in-memory multi-version [`Index`] serves reads and watches. An engine makes writes durable before it
//! publishes them there: an acknowledged write is on disk.
//!
//! ```no_run
//! use store::{Expectation, SqliteOptions, SqliteStore, Store, Transaction, Value, Write};
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let store = SqliteStore::open("/var/lib/portolan", SqliteOptions::default())?;
//! let value = Value { bytes: "{}".into(), revision_at: None };
//! let transaction = Transaction {
//!     expectations: vec![("/services/default/web".into(), Expectation::Absent)],
//!     writes: vec![Write::Put("/services/default/web".into(), value)],
//! };
//! let revision = store.commit(transaction).await?;
//! assert_eq!(store.index().revision(), revision);
//! # Ok(())
//! # }
//! ```

mod etcd;
mod group;
mod index;
mod sqlite;
mod store;
mod transfer;
mod transform;
mod types;
mod unpoisoned;
mod write_health;

pub use etcd::{EtcdAddress, EtcdSettings, EtcdStore};
pub use index::{HISTORY_BYTES_MAX, HISTORY_EVENTS_MAX, HistoryLimits, Index, Listing, Watch};
pub use sqlite::{DATABASE_FILE, SqliteOptions, SqliteStore};
pub use store::Store;
pub use transfer::{Contents, StoreLocation, TransferError, WriteOptions, WriteSummary};
pub use transform::{TransformError, Transformation, Transformer, is_sealed};
pub use types::{
    CommitError, Entry, Event, EventKind, Expectation, Key, Record, Revision, StoreError, Transaction, Value,
    Write,
};
