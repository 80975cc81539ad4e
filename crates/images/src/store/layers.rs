//! Unpacked layers, and directories in which layers are unpacked.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::disk::{names, read_bounded, sync_file_system, sync_parent, write_durably};
use super::lock::LockedFile;
use super::names::RECORD_BYTES_MAX;
use super::{ImageStore, StoreError};
use crate::digest::Digest;

/// Maximum number of origins in a record. With the longest names they fit [`RECORD_BYTES_MAX`]. Pulls from further origins
/// download the layer each time.
const ORIGINS_MAX: usize = 64;

/// Record of a complete layer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LayerRecord {
    /// Bytes of all files.
    pub size_bytes: u64,
    /// Entries of the archive.
    pub entries: u64,
    /// Origins of the layer. Records of earlier versions have none.
    #[serde(default)]
    pub origins: BTreeSet<LayerOrigin>,
}

/// Origin of a layer. It determines who may use the layer without a download.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum LayerOrigin {
    /// An archive of the administrator, or a registry without credentials: all.
    Public,
    /// A registry with credentials: all with access to this content there.
    Registry {
        /// Registry as in references.
        registry: String,
        /// Digest of the layer as the registry has it.
        content: Digest,
    },
}

impl LayerRecord {
    /// Adds an origin. A public layer needs no others.
    fn add(&mut self, origin: LayerOrigin) {
        if origin == LayerOrigin::Public {
            self.origins.clear();
        }
        let is_public = self.origins.contains(&LayerOrigin::Public);
        if !is_public && self.origins.len() < ORIGINS_MAX {
            self.origins.insert(origin);
        }
    }
}

/// Directory in which a layer is unpacked. It is deleted unless [`Unpacking::commit`] moves it to the layers.
pub(crate) struct Unpacking {
    store: ImageStore,
    directory: PathBuf,
    lock: Option<LockedFile>,
}

impl ImageStore {
    /// Returns the directory of a layer.
    pub(super) fn layer_path(&self, layer: &Digest) -> PathBuf {
        self.path_of("layers", layer)
    }

    /// Returns `true` if a layer is complete.
    pub(crate) fn has_layer(&self, layer: &Digest) -> Result<bool, StoreError> {
        Ok(self.layer_size(layer)?.is_some())
    }

    /// Returns the bytes of all files of a layer; `None` if it is not complete.
    pub(super) fn layer_size(&self, layer: &Digest) -> Result<Option<u64>, StoreError> {
        Ok(self.layer_record(layer)?.map(|record| record.size_bytes))
    }

    /// Returns the origins of a layer; `None` if it is not complete.
    pub(crate) fn layer_origins(&self, layer: &Digest) -> Result<Option<BTreeSet<LayerOrigin>>, StoreError> {
        Ok(self.layer_record(layer)?.map(|record| record.origins))
    }

    fn layer_record(&self, layer: &Digest) -> Result<Option<LayerRecord>, StoreError> {
        let path = self.layer_record_path(layer);
        let Some(content) = read_bounded(&path, RECORD_BYTES_MAX)? else {
            return Ok(None);
        };
        let record = serde_json::from_slice(&content).map_err(|error| StoreError::Damaged {
            path,
            reason: error.to_string(),
        })?;
        Ok(Some(record))
    }

    /// Creates a directory in which a layer can be unpacked.
    pub(crate) fn begin_unpacking(&self) -> Result<Unpacking, StoreError> {
        let name = format!("{:016x}", fastrand::u64(..));
        let lock_path = self.path("unpacking").join(format!("{name}.lock"));
        let lock = LockedFile::try_lock(&lock_path).map_err(StoreError::at(&lock_path))?;
        let directory = self.path("unpacking").join(name);
        let unpacking = Unpacking {
            store: self.clone(),
            lock,
            directory,
        };
        let path = &unpacking.directory;
        fs::create_dir(path).map_err(StoreError::at(path))?;
        Ok(unpacking)
    }

    /// Deletes directories of processes that exited while they unpacked a layer.
    pub(super) fn collect_unpacking(&self) -> Result<(), StoreError> {
        let directory = self.path("unpacking");
        for name in names(&directory)? {
            let id = name.strip_suffix(".lock").unwrap_or(&name);
            let lock_path = directory.join(format!("{id}.lock"));
            // The lock file is created before the directory, and deleted after it.
            let Some(lock) = LockedFile::try_lock(&lock_path).map_err(StoreError::at(&lock_path))? else {
                continue;
            };
            self.discard(&directory.join(id))?;
            lock.delete().map_err(StoreError::at(&lock_path))?;
        }
        Ok(())
    }

    /// Moves a layer out of the store. The lock of the store is held.
    pub(super) fn retire_layer(&self, layer: &Digest) -> Result<u64, StoreError> {
        let size_bytes = self.layer_size(layer)?.unwrap_or(0);
        super::disk::delete_file(&self.layer_record_path(layer))?;
        self.discard(&self.layer_path(layer))?;
        Ok(size_bytes)
    }

    fn layer_record_path(&self, layer: &Digest) -> PathBuf {
        self.path("layers").join(format!("{}.json", layer.file_name()))
    }
}

impl Unpacking {
    /// Returns the path of the directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes the directory the layer with that digest, which the caller has verified. If the store has the layer, this
    /// adds the origin to its record.
    pub(crate) fn commit(
        self,
        layer: &Digest,
        mut record: LayerRecord,
        origin: LayerOrigin,
    ) -> Result<(), StoreError> {
        sync_file_system(&self.directory).map_err(StoreError::at(&self.directory))?;
        let _lock = self.store.lock_exclusive()?;
        if let Some(mut present) = self.store.layer_record(layer)? {
            present.add(origin);
            return self.write_record(layer, &present);
        }
        record.add(origin);
        let path = self.store.layer_path(layer);
        // A directory without a record was left behind by a failure.
        self.store.discard(&path)?;
        fs::rename(&self.directory, &path).map_err(StoreError::at(&path))?;
        sync_parent(&path).map_err(StoreError::at(&path))?;
        self.write_record(layer, &record)
    }

    fn write_record(&self, layer: &Digest, record: &LayerRecord) -> Result<(), StoreError> {
        let path = self.store.layer_record_path(layer);
        let content = serde_json::to_vec(record).map_err(|error| StoreError::at(&path)(error.into()))?;
        write_durably(&path, &content)
    }
}

impl Drop for Unpacking {
    fn drop(&mut self) {
        let discarded = self.store.discard(&self.directory);
        if let Err(error) = discarded.and_then(|()| self.store.empty_trash()) {
            tracing::warn!(%error, "incomplete layer not deleted");
        }
        let deleted = self.lock.take().map_or(Ok(()), LockedFile::delete);
        if let Err(error) = deleted
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "lock file not deleted");
        }
    }
}
