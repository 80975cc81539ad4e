//! Layers that a running pull or load needs. They stay in the store although no name needs them yet.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};

use super::disk::names;
use super::lock::LockedFile;
use super::names::RECORD_BYTES_MAX;
use super::{ImageStore, StoreError};
use crate::digest::Digest;

/// Claim on layers, until the value is dropped or the process exits.
pub(crate) struct Claim {
    file: Option<LockedFile>,
}

impl ImageStore {
    /// Claims layers, whether the store has them or not.
    pub(crate) fn claim(&self, layers: &[Digest]) -> Result<Claim, StoreError> {
        let path = self.path("claims").join(format!("{:016x}", fastrand::u64(..)));
        // A sweep holds the lock exclusively, so it sees no claim without content.
        let _lock = self.lock_shared()?;
        let file = LockedFile::try_lock(&path).map_err(StoreError::at(&path))?;
        let write = || match &file {
            Some(file) => file.file().write_all(&serde_json::to_vec(layers)?),
            None => Err(io::ErrorKind::ResourceBusy.into()),
        };
        write().map_err(StoreError::at(&path))?;
        Ok(Claim { file })
    }

    /// Returns the layers of all claims. Deletes the claims of processes that have exited.
    pub(super) fn claimed(&self) -> Result<BTreeSet<Digest>, StoreError> {
        let directory = self.path("claims");
        let mut claimed = BTreeSet::new();
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
                // The claim has ended since.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                read => read.map_err(StoreError::at(&path))?,
            };
            let layers: Vec<Digest> =
                serde_json::from_slice(&content).map_err(|error| StoreError::Damaged {
                    path: path.clone(),
                    reason: error.to_string(),
                })?;
            claimed.extend(layers);
        }
        Ok(claimed)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.file.take().map(LockedFile::delete) {
            tracing::warn!(%error, "claim on layers not deleted");
        }
    }
}
