//! Copies of complete stores: reading at one revision while servers run, writing elsewhere, and checking.
//!
//! A snapshot is a database of the embedded engine in one file. `sqlite3` can open it, and the engine can be
//! started on it.
//!
//! ```no_run
//! use store::{StoreLocation, WriteOptions};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let contents = StoreLocation::Directory("/var/lib/portolan".into()).read().await?;
//! assert!(contents.faults().is_empty());
//! let snapshot = StoreLocation::File("/backup/portolan.db".into());
//! snapshot.write(&contents, WriteOptions::default(), |_written| ()).await?;
//! # Ok(())
//! # }
//! ```

pub(crate) mod contents;
pub(crate) mod error;
mod into_etcd;
mod into_sqlite;

use std::path::PathBuf;

use crate::etcd::read_etcd;
use crate::sqlite::{integrity_faults, read_file};
use crate::{DATABASE_FILE, EtcdAddress, Revision, StoreError};

pub use contents::Contents;
pub use error::TransferError;

/// Location of a store.
#[derive(Clone, Debug)]
pub enum StoreLocation {
    /// Directory of a SQLite store.
    Directory(PathBuf),
    /// Snapshot file.
    File(PathBuf),
    /// etcd cluster.
    Etcd(EtcdAddress),
}

/// Options of writing contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Replaces existing data.
    pub overwrite: bool,
    /// Minimum distance of the store's revision above that of the contents. A store that is restored to an older
    /// state must not assign revisions again that its clients have seen.
    pub revision_leap: u64,
}

impl WriteOptions {
    /// Returns the revision of a store that receives `contents` in the place of data at the revision `present`.
    fn revision_above(self, contents: &Contents, present: Option<Revision>) -> Revision {
        let copied = contents.revision.0.saturating_add(self.revision_leap);
        match present {
            // Watchers at the newest revision of the earlier data must detect the replacement.
            Some(present) => Revision(copied.max(present.0 + 1)),
            None => Revision(copied),
        }
    }
}

/// Result of writing contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteSummary {
    /// Number of objects.
    pub records: usize,
    /// Revision of the store.
    pub revision: Revision,
}

impl StoreLocation {
    /// Reads all data at one revision, while servers may write. Blocks unless it is an etcd.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Unavailable`] if the store cannot be read or does not exist, and
    /// [`StoreError::Corrupt`] if it is damaged.
    pub async fn read(&self) -> Result<Contents, StoreError> {
        match self {
            StoreLocation::Directory(directory) => read_file(&directory.join(DATABASE_FILE)),
            StoreLocation::File(file) => read_file(file),
            StoreLocation::Etcd(address) => read_etcd(address).await,
        }
    }

    /// Writes contents. No server may run on the destination. `progress` is called with the number of written
    /// objects. Blocks unless it is an etcd.
    ///
    /// # Errors
    ///
    /// Returns [`TransferError`] if the destination contains data or writing fails.
    pub async fn write(
        &self,
        contents: &Contents,
        options: WriteOptions,
        progress: impl FnMut(usize),
    ) -> Result<WriteSummary, TransferError> {
        match self {
            StoreLocation::Directory(directory) => {
                into_sqlite::directory(directory, contents, options, progress)
            }
            StoreLocation::File(file) => into_sqlite::file(file, contents, options, progress),
            StoreLocation::Etcd(address) => into_etcd::write(address, contents, options, progress).await,
        }
    }

    /// Erases removed and replaced data from the files of a data directory. No server may run on the directory. For a
    /// snapshot and for etcd, this function has no effect; compaction and defragmentation of etcd erase the data.
    /// Blocks.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::InUse`] or [`StoreError::Unavailable`] if the files cannot be written.
    pub fn erase_removed(&self) -> Result<(), StoreError> {
        match self {
            StoreLocation::Directory(directory) => into_sqlite::erase_removed(directory),
            StoreLocation::File(_) | StoreLocation::Etcd(_) => Ok(()),
        }
    }

    /// Returns the faults that the engine's own check finds in the files. Blocks.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Unavailable`] if the files cannot be read.
    pub fn integrity_faults(&self) -> Result<Vec<String>, StoreError> {
        match self {
            StoreLocation::Directory(directory) => integrity_faults(&directory.join(DATABASE_FILE)),
            StoreLocation::File(file) => integrity_faults(file),
            // etcd checks its files itself.
            StoreLocation::Etcd(_) => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests;
