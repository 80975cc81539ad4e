//! Whole stores as goods: read at one revision while servers run, written somewhere else, looked over.
//!
//! A snapshot is a database of the embedded engine in one file, so `sqlite3` can open it, and the engine can be started
//! on it.

mod into_etcd;
mod into_sqlite;

use std::path::PathBuf;

use crate::etcd::read_etcd;
use crate::sqlite::{integrity_faults, read_file};
use crate::{DATABASE_FILE, EtcdAddress, Record, Revision, StoreError};

/// Where a store is.
#[derive(Clone, Debug)]
pub enum Place {
    /// The directory of an embedded store.
    Directory(PathBuf),
    /// A snapshot.
    File(PathBuf),
    /// An etcd.
    Etcd(EtcdAddress),
}

/// Everything that is in a store at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The newest revision.
    pub revision: Revision,
    /// Ascending by key.
    pub records: Vec<Record>,
}

/// How contents are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Whether what is there may be replaced.
    pub overwrite: bool,
    /// The store's revision is to be at least this much above that of the contents. A store that is set back to an
    /// older state must not give out revisions again that its clients have seen.
    pub revision_leap: u64,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Objects.
    pub records: usize,
    /// The store's revision.
    pub revision: Revision,
}

/// Why contents could not be written.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// There is something already.
    #[error("{place} is not empty; it is replaced with --overwrite")]
    NotEmpty {
        /// Where.
        place: String,
    },
    /// Reading or writing failed. Into etcd, what was written so far is there, marked as incomplete.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Place {
    /// Reads everything at one revision; servers may go on writing. Blocks if it is no etcd.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if it cannot be read, or is not there; [`StoreError::Corrupt`] if it is damaged.
    pub async fn read(&self) -> Result<Contents, StoreError> {
        match self {
            Place::Directory(directory) => read_file(&directory.join(DATABASE_FILE)),
            Place::File(file) => read_file(file),
            Place::Etcd(address) => read_etcd(address).await,
        }
    }

    /// Writes contents. No server may run on them; `progress` is told how many objects were written. Blocks if
    /// it is no etcd.
    ///
    /// # Errors
    /// See [`TransferError`].
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

    /// Removes from the files what was removed or replaced in the store, of which they keep traces. No server may run on
    /// them. etcd does it itself, when its history is compacted and its file defragmented. Blocks.
    ///
    /// # Errors
    /// [`StoreError::InUse`] or [`StoreError::Unavailable`] if they cannot be written.
    pub fn erase_removed(&self) -> Result<(), StoreError> {
        match self {
            Place::Directory(directory) => into_sqlite::erase_removed(directory),
            Place::File(_) | Place::Etcd(_) => Ok(()),
        }
    }

    /// What is wrong with the files themselves, from the engine's own checks. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if they cannot be read.
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
    /// How many values are in a form that a [`crate::Transformer`] opens.
    pub fn sealed_count(&self) -> usize {
        let sealed = |record: &&Record| crate::is_sealed(&record.value.bytes);
        self.records.iter().filter(sealed).count()
    }

    /// What contradicts itself: keys out of order, revisions that cannot be, places beyond the end of values.
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
            if value.inscribed(*modified).is_none() {
                faults.push(format!("the place for the revision of {key} lies beyond its end"));
            }
        }
        faults
    }

    /// The revision of a store that takes these contents in the place of what it had.
    fn revision_above(&self, present: Option<Revision>, options: WriteOptions) -> Revision {
        let copied = self.revision.0.saturating_add(options.revision_leap);
        match present {
            // Whoever watches from the newest revision of before has to notice.
            Some(present) => Revision(copied.max(present.0 + 1)),
            None => Revision(copied),
        }
    }
}

#[cfg(test)]
mod tests;
