//! The interface of all engines.

use futures_util::future::BoxFuture;

use crate::{CommitError, Index, Revision, StoreError, Transaction};

/// A revisioned, watchable key-value store, used as `Arc<dyn Store>`: the engine is chosen at start.
///
/// [`Store::index`] serves reads and watches. An engine makes writes durable and keeps the index current.
pub trait Store: Send + Sync + 'static {
    /// Returns the in-memory multi-version index: get, list, watch.
    fn index(&self) -> &Index;

    /// Returns true if other processes write to the same data. Data derived from it must then follow the index.
    fn is_shared(&self) -> bool;

    /// Resolves when the engine can no longer serve correct data, for instance because its database was restored from
    /// an older snapshot. The process must exit and start again. For most engines, the future does not resolve.
    fn lost(&self) -> BoxFuture<'_, StoreError>;

    /// Resolves with the revision of the index when that includes all writes that any process acknowledged before
    /// the call. An engine of one process resolves at once.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Unavailable`] if the engine does not respond.
    fn read_barrier(&self) -> BoxFuture<'_, Result<Revision, StoreError>>;

    /// Commits a transaction if its expectations hold. With `Ok`, all writes are durable and visible in the index
    /// under the returned revision. Dropping the future does not cancel the transaction.
    ///
    /// # Errors
    ///
    /// Returns [`CommitError`]. Nothing is written, except possibly with [`CommitError::Store`].
    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, CommitError>>;

    /// Returns the reason if the last write failed; the next one may succeed.
    fn write_failure(&self) -> Option<String>;

    /// Removes the history before `revision`, which stays readable. Compacting to an older revision has no effect.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Future`] if the revision does not exist yet, and [`StoreError::Unavailable`] if the
    /// engine fails.
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StoreError>>;
}
