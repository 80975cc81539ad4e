//! File locks (`flock(2)`) between the processes that use a store.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::{ImageStore, StoreError};

/// Maximum number of attempts to lock a file that other processes delete and create. Each attempt follows a deletion.
const ATTEMPTS_MAX: usize = 1_000;

/// File with an exclusive lock. The lock ends with the value, or with the process.
#[derive(Debug)]
pub(crate) struct LockedFile {
    file: File,
    path: PathBuf,
}

impl LockedFile {
    /// Opens or creates a file and locks it. Returns `None` if another holds the lock.
    pub(crate) fn try_lock(path: &Path) -> io::Result<Option<Self>> {
        for _ in 0..ATTEMPTS_MAX {
            let file = open(path)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
            if is_current(&file, path)? {
                let path = path.to_owned();
                return Ok(Some(Self { file, path }));
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Deletes the file, and then ends the lock.
    pub(crate) fn delete(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

impl ImageStore {
    /// Blocks changes of the store by other processes and threads. Every change is short.
    pub(super) fn lock_shared(&self) -> Result<File, StoreError> {
        self.lock(FlockOperation::LockShared)
    }

    /// Blocks all other access to the store.
    pub(super) fn lock_exclusive(&self) -> Result<File, StoreError> {
        self.lock(FlockOperation::LockExclusive)
    }

    fn lock(&self, operation: FlockOperation) -> Result<File, StoreError> {
        let path = self.path("lock");
        let file = open(&path).map_err(StoreError::at(&path))?;
        loop {
            match rustix::fs::flock(&file, operation) {
                Err(Errno::INTR) => {}
                result => {
                    result.map_err(|errno| StoreError::at(&path)(errno.into()))?;
                    return Ok(file);
                }
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(0o600).open(path)
}

/// Returns `true` if `path` still is the name of the file.
fn is_current(file: &File, path: &Path) -> io::Result<bool> {
    let locked = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named) => Ok(named.ino() == locked.ino() && named.dev() == locked.dev()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
