//! Images that programs use. They stay in the store while their containers run, even if the program does not.

use std::collections::{BTreeMap, BTreeSet};

use super::disk::{delete_file, names, read_bounded, write_durably};
use super::names::ImageDigests;
use super::{ImageStore, StoreError};
use crate::image::ImageId;

/// Maximum number of bytes of the record of one program: hundreds of images.
const RECORD_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of characters of the name of a holder.
const HOLDER_LENGTH_MAX: usize = 64;

impl ImageStore {
    /// Records the images that the containers of a program use, in place of its earlier record.
    ///
    /// The images stay in the store until the program records other ones, whatever process removes or prunes images.
    /// Returns the images that the store does not have any more; their containers must not start.
    ///
    /// # Errors
    /// [`StoreError::Holder`] for a name with characters other than lower-case letters, digits and `-`.
    pub fn protect(&self, holder: &str, images: &BTreeSet<ImageId>) -> Result<BTreeSet<ImageId>, StoreError> {
        let is_character = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if holder.is_empty() || holder.len() > HOLDER_LENGTH_MAX || !holder.bytes().all(is_character) {
            return Err(StoreError::Holder(holder.to_owned()));
        }
        let _lock = self.lock_exclusive()?;
        let mut missing = images.clone();
        let mut parts = BTreeSet::new();
        // An image keeps its parts even if another image took its name since.
        if let Some(before) = self.protected()?.remove(holder) {
            parts.extend(
                before
                    .into_iter()
                    .filter(|held| images.contains(&ImageId(held.config.clone()))),
            );
        }
        for (record, _) in self.name_records()? {
            let id = ImageId(record.parts.config.clone());
            if images.contains(&id) {
                self.touch_name(&record.reference)?;
                parts.insert(record.parts);
            }
        }
        for held in &parts {
            missing.remove(&ImageId(held.config.clone()));
        }
        let path = self.path("protected").join(format!("{holder}.json"));
        if parts.is_empty() {
            delete_file(&path)?;
        } else {
            let content = serde_json::to_vec(&parts).map_err(|error| StoreError::at(&path)(error.into()))?;
            write_durably(&path, &content)?;
        }
        Ok(missing)
    }

    /// Returns the images that each program uses.
    pub(super) fn protected(&self) -> Result<BTreeMap<String, BTreeSet<ImageDigests>>, StoreError> {
        let directory = self.path("protected");
        let mut protected = BTreeMap::new();
        for name in names(&directory)? {
            let Some(holder) = name.strip_suffix(".json") else {
                continue;
            };
            let path = directory.join(&name);
            let Some(content) = read_bounded(&path, RECORD_BYTES_MAX)? else {
                continue;
            };
            let parts = serde_json::from_slice(&content).map_err(|error| StoreError::Damaged {
                path,
                reason: error.to_string(),
            })?;
            protected.insert(holder.to_owned(), parts);
        }
        Ok(protected)
    }
}
