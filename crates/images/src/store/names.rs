//! Records on disk of the names of images, each with its digests.

use std::collections::BTreeMap;
use std::fs::{self, FileTimes};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::disk::{delete_file, names, read_bounded, write_durably};
use super::{ImageStore, StoreError};
use crate::digest::Digest;
use crate::image::Image;
use crate::reference::Reference;

/// Maximum number of bytes of a record: some 127 digests.
pub(super) const RECORD_BYTES_MAX: u64 = 64 << 10;

/// Digests of the parts of an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ImageDigests {
    /// Index or manifest that the name stands for.
    pub target: Digest,
    pub manifest: Digest,
    pub config: Digest,
    /// Uncompressed layers, lowest first.
    pub layers: Vec<Digest>,
}

/// Record of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NameRecord {
    pub reference: Reference,
    #[serde(flatten)]
    pub parts: ImageDigests,
    pub size_bytes: u64,
}

/// Content to store for an image, by digest, which the caller has verified.
pub(crate) type VerifiedContent = BTreeMap<Digest, Vec<u8>>;

impl ImageStore {
    /// Gives an image its name. Returns `None` if a layer is absent: another process may have removed it.
    pub(crate) fn commit(
        &self,
        reference: &Reference,
        parts: ImageDigests,
        documents: &VerifiedContent,
    ) -> Result<Option<Image>, StoreError> {
        let _lock = self.lock_exclusive()?;
        let mut size_bytes = 0_u64;
        for layer in &parts.layers {
            match self.layer_size(layer)? {
                Some(bytes) => size_bytes = size_bytes.saturating_add(bytes),
                None => return Ok(None),
            }
        }
        for (digest, content) in documents {
            self.write_blob(digest, content)?;
        }
        let record = NameRecord {
            reference: reference.clone(),
            parts,
            size_bytes,
        };
        let path = self.name_path(reference);
        let content = serde_json::to_vec(&record).map_err(|error| StoreError::at(&path)(error.into()))?;
        write_durably(&path, &content)?;
        self.image(&record, reference)
    }

    /// Returns the record of a name; for a name with a digest, of an image with this digest in the same repository.
    pub(super) fn name_record(&self, reference: &Reference) -> Result<Option<NameRecord>, StoreError> {
        if let Some(record) = self.read_name(&self.name_path(reference))? {
            return Ok(Some(record));
        }
        let Some(digest) = reference.digest() else {
            return Ok(None);
        };
        let matches = |record: &NameRecord| {
            let parts = &record.parts;
            record.reference.is_same_repository(reference)
                && (parts.target == *digest || parts.manifest == *digest)
        };
        let mut records = self.name_records()?.into_iter().map(|(record, _)| record);
        Ok(records.find(matches))
    }

    /// Returns all records with the times of their last use.
    pub(super) fn name_records(&self) -> Result<Vec<(NameRecord, SystemTime)>, StoreError> {
        let directory = self.path("names");
        let mut records = Vec::new();
        for name in names(&directory)?
            .into_iter()
            .filter(|name| name.ends_with(".json"))
        {
            let path = directory.join(name);
            let Some(record) = self.read_name(&path)? else {
                continue;
            };
            let modified = fs::metadata(&path).and_then(|metadata| metadata.modified());
            records.push((record, modified.map_err(StoreError::at(&path))?));
        }
        Ok(records)
    }

    /// Deletes the record of a name.
    pub(super) fn delete_name(&self, reference: &Reference) -> Result<(), StoreError> {
        delete_file(&self.name_path(reference))
    }

    /// Sets the time of the last use of a name to now.
    pub(super) fn touch_name(&self, reference: &Reference) -> Result<(), StoreError> {
        let path = self.name_path(reference);
        let touch = || fs::File::open(&path)?.set_times(FileTimes::new().set_modified(SystemTime::now()));
        touch().map_err(StoreError::at(&path))
    }

    fn read_name(&self, path: &Path) -> Result<Option<NameRecord>, StoreError> {
        let Some(content) = read_bounded(path, RECORD_BYTES_MAX)? else {
            return Ok(None);
        };
        let record = serde_json::from_slice(&content).map_err(|error| StoreError::Damaged {
            path: path.to_path_buf(),
            reason: error.to_string(),
        })?;
        Ok(Some(record))
    }

    fn name_path(&self, reference: &Reference) -> PathBuf {
        let digest = Digest::sha256(reference.to_string().as_bytes());
        self.path("names").join(format!("{}.json", digest.hex()))
    }
}
