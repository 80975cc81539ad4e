//! Manifests, indexes and configurations by digest.

use super::disk::{read_bounded, write_durably};
use super::{ImageStore, StoreError};
use crate::digest::Digest;
use crate::manifest::CONFIG_BYTES_MAX;

impl ImageStore {
    /// Returns the content with a digest, verified. `None` if it is absent.
    pub(crate) fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.path_of("blobs", digest);
        match read_bounded(&path, CONFIG_BYTES_MAX)? {
            Some(content) if !digest.matches(&content) => Err(StoreError::Damaged {
                path,
                reason: "its content has another digest".to_owned(),
            }),
            content => Ok(content),
        }
    }

    /// Stores content of which the caller has verified the digest.
    pub(super) fn write_blob(&self, digest: &Digest, content: &[u8]) -> Result<(), StoreError> {
        let path = self.path_of("blobs", digest);
        if path.exists() {
            return Ok(());
        }
        write_durably(&path, content)
    }
}
