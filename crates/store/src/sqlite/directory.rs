//! The data directory, which one process uses at a time.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::StoreError;

/// Lock file. The kernel releases the lock when the process exits in any way.
const LOCK_FILE: &str = "portolan.lock";

/// The exclusive lock of a data directory; dropping it releases the lock.
pub(crate) struct DataDirectory {
    path: PathBuf,
    _lock: File,
}

impl DataDirectory {
    /// Creates the directory if needed, readable by its owner only because it contains Secrets, and locks it.
    pub(crate) fn acquire(path: &Path) -> Result<DataDirectory, StoreError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| unusable("create the data directory", path, &error))?;
        let lock_path = path.join(LOCK_FILE);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&lock_path)
            .map_err(|error| unusable("open", &lock_path, &error))?;
        match lock.try_lock() {
            Ok(()) => Ok(DataDirectory {
                path: path.to_owned(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse {
                directory: path.to_owned(),
            }),
            Err(TryLockError::Error(error)) => Err(unusable("lock", &lock_path, &error)),
        }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

fn unusable(action: &str, path: &Path, error: &io::Error) -> StoreError {
    let advice = match error.kind() {
        io::ErrorKind::StorageFull => "; free space on its disk",
        io::ErrorKind::ReadOnlyFilesystem => "; mount its disk read-write, or choose another directory",
        io::ErrorKind::PermissionDenied => "; grant write access, or choose another directory",
        _ => "",
    };
    StoreError::Unavailable {
        reason: format!("cannot {action} {}: {error}{advice}", path.display()),
    }
}
