//! Copies of complete stores: reading at one revision while servers run, writing elsewhere, and checking.
//!
//! A snapshot is a database of the embedded engine in one file. `sqlite3` can open it, and the engine can be
//! started on it.

mod into_etcd;
mod into_sqlite;

use std::path::PathBuf;

use crate::etcd::read_etcd;
use crate::sqlite::{integrity_faults, read_file};
use crate::{DATABASE_FILE, EtcdAddress, Record, Revision, StoreError};

/// Location of a store.
#[derive(Clone, Debug)]
pub enum Place {
    /// Directory of an embedded store.
    Directory(PathBuf),
    /// Snapshot file.
    File(PathBuf),
    /// etcd cluster.
    Etcd(EtcdAddress),
}

/// All data of a store at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Newest revision.
    pub revision: Revision,
    /// Records, ascending by key.
    pub records: Vec<Record>,
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

/// Result of writing contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Number of objects.
    pub records: usize,
    /// Revision of the store.
    pub revision: Revision,
}

/// Failure to write contents.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The destination contains data.
    #[error("{destination} is not empty; set --overwrite to replace it")]
    NotEmpty {
        /// Destination.
        destination: String,
    },
    /// Reading or writing failed. In etcd, the data written so far remains, marked as incomplete.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Place {
    /// Reads all data at one revision, while servers may write. Blocks unless it is an etcd.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Unavailable`] if the store cannot be read or does not exist, and
    /// [`StoreError::Corrupt`] if it is damaged.
    pub async fn read(&self) -> Result<Contents, StoreError> {
        match self {
            Place::Directory(directory) => read_file(&directory.join(DATABASE_FILE)),
            Place::File(file) => read_file(file),
            Place::Etcd(address) => read_etcd(address).await,
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
    ) -> Result<Written, TransferError> {
        match self {
            Place::Directory(directory) => into_sqlite::directory(directory, contents, options, progress),
            Place::File(file) => into_sqlite::file(file, contents, options, progress),
            Place::Etcd(address) => into_etcd::write(address, contents, options, progress).await,
        }
    }

    /// Erases removed and replaced data from the files, which keep traces of it. No server may run on them. etcd
    /// does this itself when its history is compacted and its file defragmented. Blocks.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::InUse`] or [`StoreError::Unavailable`] if the files cannot be written.
    pub fn erase_removed(&self) -> Result<(), StoreError> {
        match self {
            Place::Directory(directory) => into_sqlite::erase_removed(directory),
            Place::File(_) | Place::Etcd(_) => Ok(()),
        }
    }

    /// Returns the faults that the engine's own check finds in the files. Blocks.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Unavailable`] if the files cannot be read.
    pub fn integrity_faults(&self) -> Result<Vec<String>, StoreError> {
        match self {
            Place::Directory(directory) => integrity_faults(&directory.join(DATABASE_FILE)),
            Place::File(file) => integrity_faults(file),
            // etcd checks its files itself.
            Place::Etcd(_) => Ok(Vec::new()),
        }
    }
}

impl Contents {
    /// Returns the number of sealed values; see [`crate::Transformer`].
    pub fn sealed_count(&self) -> usize {
        let sealed = |record: &&Record| crate::is_sealed(&record.value.bytes);
        self.records.iter().filter(sealed).count()
    }

    /// Returns the inconsistencies: keys out of order, impossible revisions, and offsets out of bounds.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for pair in self.records.windows(2) {
            if let [one, other] = pair
                && one.key >= other.key
            {
                faults.push(format!("{} does not come before {}", one.key, other.key));
            }
        }
        for record in &self.records {
            let Record {
                key,
                value,
                created,
                modified,
            } = record;
            if created > modified || *modified > self.revision {
                faults.push(format!(
                    "{key} was created at revision {created} and changed at {modified}, of {} in all",
                    self.revision
                ));
            }
            if value.with_revision(*modified).is_none() {
                faults.push(format!("the offset of the revision of {key} is out of bounds"));
            }
        }
        faults
    }

    /// Returns the revision of a store whose data these contents replace.
    fn revision_above(&self, present: Option<Revision>, options: WriteOptions) -> Revision {
        let copied = self.revision.0.saturating_add(options.revision_leap);
        match present {
            // Watchers at the newest revision before must notice the replacement.
            Some(present) => Revision(copied.max(present.0 + 1)),
            None => Revision(copied),
        }
    }
}

#[cfg(test)]
mod tests;
