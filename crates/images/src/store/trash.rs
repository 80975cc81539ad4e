//! Deletion of directories: a rename while the store is locked, and the deletion itself afterwards.

use std::fs;
use std::io;
use std::path::Path;

use super::disk::names;
use super::{ImageStore, StoreError};

impl ImageStore {
    /// Moves a directory to the trash. Succeeds if it is absent.
    pub(super) fn discard(&self, directory: &Path) -> Result<(), StoreError> {
        let target = self.path("trash").join(format!("{:016x}", fastrand::u64(..)));
        match fs::rename(directory, target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::at(directory)(error)),
            _ => Ok(()),
        }
    }

    /// Deletes everything in the trash. Other processes may do so at the same time.
    pub(super) fn empty_trash(&self) -> Result<(), StoreError> {
        let trash = self.path("trash");
        for name in names(&trash)? {
            let path = trash.join(name);
            // The function follows no symbolic link of a layer.
            match fs::remove_dir_all(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed.map_err(StoreError::at(&path))?,
            }
        }
        Ok(())
    }
}
