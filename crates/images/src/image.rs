//! Images in the store, with their identifiers and sizes.

use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::config::ImageConfig;
use crate::digest::Digest;
use crate::reference::Reference;

/// Identity of an image: the digest of its configuration. Equal content has one ID under all its names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ImageId(pub Digest);

impl fmt::Display for ImageId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Complete image: verified, with unpacked layers.
#[derive(Clone, Debug)]
pub struct Image {
    /// Identity of the content.
    pub id: ImageId,
    /// Name under which the image was found.
    pub reference: Reference,
    /// Digest that the registry has under that name: of an index if there is one, otherwise of the manifest.
    pub digest: Digest,
    /// Digest of the manifest.
    pub manifest: Digest,
    /// Defaults of containers.
    pub config: ImageConfig,
    /// Directories of the unpacked layers, lowest first, as lower directories of an overlay file system.
    pub layers: Vec<PathBuf>,
    /// Bytes of all files of the layers.
    pub size_bytes: u64,
}

/// One name in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageSummary {
    /// Name of the image.
    pub reference: Reference,
    /// Identity of the content.
    pub id: ImageId,
    /// Digest that the registry has under that name.
    pub digest: Digest,
    /// Bytes of all files of the layers. Images can share layers.
    pub size_bytes: u64,
    /// Time of the pull or load, or of the last use by a container after it.
    #[serde(skip)]
    pub last_used: SystemTime,
    /// Programs that protect the image from removal.
    pub holders: Vec<String>,
}
