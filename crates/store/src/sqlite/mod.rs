//! The engine `sqlite`: SQLite with a write-ahead log, synced for each group of commits.
//!
//! One thread writes and never reads. At start, the current state is loaded into the index.

mod database;
mod directory;
mod reading;
mod write_ahead_log;
mod writer;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use futures_util::future::{self, BoxFuture, FutureExt};
use tokio::sync::{mpsc, oneshot};

pub(crate) use self::database::Database;
pub(crate) use self::directory::DataDirectory;
pub(crate) use self::reading::{integrity_faults, read_file};
use self::writer::Request;
use crate::write_health::WriteHealth;
use crate::{CommitError, HistoryLimits, Index, Revision, Store, StoreError, Transaction, Transformation};

/// Name of the database file in the data directory.
pub const DATABASE_FILE: &str = "portolan.db";

/// Limit of transactions that wait for the writer: two full groups. Further callers wait for room in the queue.
const WAITING_TRANSACTIONS_MAX: usize = 1_024;

/// Options of the embedded engine.
#[derive(Clone, Debug, Default)]
pub struct SqliteOptions {
    /// History in memory, for watches and reads of the past.
    pub history: HistoryLimits,
    /// Transformation of stored values.
    pub transformation: Transformation,
}

/// The embedded engine. Dropping it finishes pending transactions, which blocks for a few milliseconds, and releases
/// the directory.
pub struct SqliteStore {
    index: Arc<Index>,
    /// `None` only during drop.
    requests: Option<mpsc::Sender<Request>>,
    writer: Option<JoinHandle<()>>,
    transformation: Transformation,
    write_health: WriteHealth,
    // Dropped last: the directory is released after the last write.
    _directory: DataDirectory,
}

impl SqliteStore {
    /// Opens the store in a directory, creates both if needed, and loads it into memory. Blocks.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::InUse`] if another process uses the directory. Returns [`StoreError::Corrupt`] if the
    /// database is damaged, of a newer version or of another program. Returns [`StoreError::Unavailable`] for errors of
    /// the system (permissions, disk). Each error names the file or directory.
    pub fn open(directory: impl AsRef<Path>, options: SqliteOptions) -> Result<SqliteStore, StoreError> {
        let directory = DataDirectory::acquire(directory.as_ref())?;
        let path = directory.file(DATABASE_FILE);
        let database = Database::open(&path)?;
        let transformation = options.transformation;
        if !transformation.is_none() {
            database.enable_secure_delete(&path)?;
        }
        let mut entries = Vec::new();
        let revision = database.load(&path, |record| {
            entries.extend(transformation.open_record(record).into_entry());
        })?;
        let index = Arc::new(Index::restore(options.history, revision, entries));
        let (requests, waiting) = mpsc::channel(WAITING_TRANSACTIONS_MAX);
        let written = index.clone();
        let writer = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer::run(database, written, waiting))
            .map_err(|error| StoreError::Unavailable {
                reason: format!("cannot start the writer thread: {error}"),
            })?;
        Ok(SqliteStore {
            index,
            requests: Some(requests),
            writer: Some(writer),
            transformation,
            write_health: WriteHealth::default(),
            _directory: directory,
        })
    }

    async fn send_to_writer(&self, transaction: Transaction) -> Result<Revision, CommitError> {
        let requests = self.requests.as_ref().ok_or_else(writer_gone)?;
        let stored = match self.transformation.to_stored(&transaction.writes)? {
            Cow::Borrowed(_) => None,
            Cow::Owned(stored) => Some(stored),
        };
        let (reply, outcome) = oneshot::channel();
        requests
            .send(Request {
                transaction,
                stored,
                reply,
            })
            .await
            .map_err(|_| writer_gone())?;
        outcome.await.map_err(|_| writer_gone())?
    }
}

impl Store for SqliteStore {
    fn index(&self) -> &Index {
        &self.index
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn lost(&self) -> BoxFuture<'_, StoreError> {
        future::pending().boxed()
    }

    fn read_barrier(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        future::ready(Ok(self.index.revision())).boxed()
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, CommitError>> {
        async move {
            let result = self.send_to_writer(transaction).await;
            self.write_health.record(&result);
            result
        }
        .boxed()
    }

    fn write_failure(&self) -> Option<String> {
        self.write_health.failure()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        future::ready(())
            .map(move |()| self.index.compact(revision))
            .boxed()
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("store writer thread panicked");
        }
    }
}

fn writer_gone() -> StoreError {
    StoreError::Unavailable {
        reason: "the writer thread has stopped".to_owned(),
    }
}
