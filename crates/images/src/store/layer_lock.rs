//! Layers that a running pull or load needs. They stay in the store although no name needs them yet.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};

use super::disk::names;
use super::lock::LockedFile;
use super::names::RECORD_BYTES_MAX;
use super::{ImageStore, StoreError};
use crate::digest::Digest;

/// Lock of layers, until the value is dropped or the process exits.
pub(crate) struct LayerLock {
    file: Option<LockedFile>,
}

impl ImageStore {
    /// Locks layers, whether the store has them or not.
    pub(crate) fn lock_layers(&self, layers: &[Digest]) -> Result<LayerLock, StoreError> {
        let path = self.path("claims").join(format!("{:016x}", fastrand::u64(..)));
        // A sweep holds the lock of the store exclusively, so it sees no layer lock without content.
        let _lock = self.lock_shared()?;
        let file = LockedFile::try_lock(&path).map_err(StoreError::at(&path))?;
        let write = || match &file {
            Some(file) => file.file().write_all(&serde_json::to_vec(layers)?),
            None => Err(io::ErrorKind::ResourceBusy.into()),
        };
        write().map_err(StoreError::at(&path))?;
        Ok(LayerLock { file })
    }

    /// Returns the locked layers. Deletes the layer locks of processes that have exited.
    pub(super) fn locked_layers(&self) -> Result<BTreeSet<Digest>, StoreError> {
        let directory = self.path("claims");
        let mut locked = BTreeSet::new();
        for name in names(&directory)? {
            let path = directory.join(name);
            if let Some(stale) = LockedFile::try_lock(&path).map_err(StoreError::at(&path))? {
                stale.delete().map_err(StoreError::at(&path))?;
                continue;
            }
            let mut content = Vec::new();
            let read = std::fs::File::open(&path)
                .and_then(|file| file.take(RECORD_BYTES_MAX).read_to_end(&mut content));
            match read {
                // The layer lock has ended in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                read => read.map_err(StoreError::at(&path))?,
            };
            let layers: Vec<Digest> =
                serde_json::from_slice(&content).map_err(|error| StoreError::Damaged {
                    path: path.clone(),
                    reason: error.to_string(),
                })?;
            locked.extend(layers);
        }
        Ok(locked)
    }
}

impl Drop for LayerLock {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.file.take().map(LockedFile::delete) {
            tracing::warn!(%error, "layer lock not deleted");
        }
    }
}
