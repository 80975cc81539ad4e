//! The interface of every engine.

use futures_util::future::BoxFuture;

use crate::{CommitError, Index, Revision, StoreError, Transaction};

/// A revisioned, watchable key-value store. Used as `Arc<dyn Store>`: the engine is chosen at start.
///
/// Reads and watches go to [`Store::index`], whatever the engine; an engine only makes writes durable and
/// keeps the index up to date.
pub trait Store: Send + Sync + 'static {
    /// The in-memory multi-version index: get, list, watch.
    fn index(&self) -> &Index;

    /// Whether other processes write to the same data: then what is derived from it has to follow the index.
    fn is_shared(&self) -> bool;

    /// Resolves when the engine finds that it cannot serve right data any more, for instance since its database was
    /// set back to an older state. The process should end, and begin anew with what is there. Never for most engines.
    fn lost(&self) -> BoxFuture<'_, StoreError>;

    /// Resolves when the index is at least as new as everything that was acknowledged, by whomever, before
    /// the call; gives the index's revision. An engine of one process does this at once.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the engine cannot tell.
    fn read_barrier(&self) -> BoxFuture<'_, Result<Revision, StoreError>>;

    /// Carries out a transaction if its expectations hold. When it resolves with `Ok`, the writes are
    /// durable, all under the returned revision, and visible in the index. Dropping the future does not
    /// undo what is under way.
    ///
    /// # Errors
    /// See [`CommitError`]; nothing was written unless it is [`CommitError::Store`].
    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, CommitError>>;

    /// Forgets the history before `revision`, which stays readable. What is forgotten already stays so.
    ///
    /// # Errors
    /// [`StoreError::Future`] if the revision does not exist yet, [`StoreError::Unavailable`] when the
    /// engine fails.
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StoreError>>;
}
