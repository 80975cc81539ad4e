//! Manifests and image indexes of the OCI image specification and of Docker's image manifest version 2, schema 2.

use serde::Deserialize;

use crate::digest::Digest;
use crate::layer::limits::ARCHIVE_BYTES_MAX;
use crate::platform::Platform;
use crate::text::printable;

#[cfg(test)]
mod tests;

/// Bytes of a manifest or index, as registries limit them.
pub const MANIFEST_BYTES_MAX: u64 = 4 << 20;
/// Maximum number of bytes of an image's configuration. Long histories take some 100 KiB.
pub const CONFIG_BYTES_MAX: u64 = 4 << 20;
/// Layers of an image. Docker has this limit as well.
pub const LAYERS_MAX: usize = 127;
/// Maximum number of manifests in an index: some 20 platforms, each with an attestation, in a few versions.
const INDEX_ENTRIES_MAX: usize = 1_024;
/// Maximum number of compressed bytes of all layers. Images with machine-learning libraries and models have some 20
/// GiB.
const IMAGE_BYTES_MAX: u64 = 64 << 30;
/// Maximum number of platforms in a message.
const LISTED_PLATFORMS_MAX: usize = 16;

/// Media types that a client of a registry accepts as manifest or index.
pub(crate) const ACCEPTED_MEDIA_TYPES: [&str; 4] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
const CONFIG_MEDIA_TYPES: [&str; 3] = [
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
    // Docker's archives have no media types.
    "",
];
const SCHEMA_1_PREFIX: &str = "application/vnd.docker.distribution.manifest.v1+";

/// Reason why a manifest is not one of an image that this host can run.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The content is not JSON of the expected form.
    #[error("the manifest has an invalid form: {0}")]
    Form(String),
    /// The manifest is longer than [`MANIFEST_BYTES_MAX`].
    #[error("the manifest has more than {MANIFEST_BYTES_MAX} bytes")]
    TooLong,
    /// The manifest has `layers` and `manifests`, so programs could read it in two ways (CVE-2021-41190).
    #[error("the manifest is ambiguous: it has the fields of an index and of an image")]
    Ambiguous,
    /// The manifest has neither layers nor manifests.
    #[error("the manifest has neither config and layers nor manifests")]
    Neither,
    /// The manifest has Docker's schema 1, which is signed, not content-addressed.
    #[error(
        "the manifest has Docker's schema 1, which is obsolete; build the image again with a current program"
    )]
    Schema1,
    /// The manifest is of something else: a Helm chart, a signature.
    #[error("the manifest is not one of a container image: its configuration has the media type {0:?}")]
    NotAnImage(String),
    /// The layer is encrypted, has other compression, or must be downloaded from elsewhere.
    #[error("layer {digest} has the media type {media_type:?}, which is not supported")]
    LayerMediaType {
        /// Digest of the layer.
        digest: Digest,
        /// Media type of the layer.
        media_type: String,
    },
    /// There are more layers than [`LAYERS_MAX`].
    #[error("expected at most {LAYERS_MAX} layers in the image, found {0}")]
    Layers(usize),
    /// A layer is longer than an archive may be, even without compression.
    #[error("expected at most {ARCHIVE_BYTES_MAX} bytes in layer {digest}, found {bytes}")]
    LayerBytes {
        /// Digest of the layer.
        digest: Digest,
        /// Size of the layer.
        bytes: u64,
    },
    /// The layers are too long together.
    #[error("expected at most {IMAGE_BYTES_MAX} bytes in the layers of the image, found {0}")]
    ImageBytes(u64),
    /// There are too many manifests in the index.
    #[error("expected at most {INDEX_ENTRIES_MAX} manifests in the index, found {0}")]
    IndexEntries(usize),
    /// The index has no image for the platform.
    #[error("no image for {required}; the index has {}", list(offered))]
    Platform {
        /// Platform that is required.
        required: Box<Platform>,
        /// First platforms in the index.
        offered: Vec<Platform>,
    },
    /// The index leads to another index.
    #[error("the index contains an index where an image is expected")]
    NestedIndex,
}

/// Link to content: digest, size and media type.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default)]
    pub platform: Option<Platform>,
    #[serde(default)]
    pub annotations: std::collections::BTreeMap<String, String>,
}

/// Manifest of one image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub config: Descriptor,
    pub layers: Vec<Descriptor>,
}

/// Manifest or index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    Manifest(Manifest),
    Index(Vec<Descriptor>),
}

/// Fields of manifests and of indexes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnyDocument {
    #[serde(default)]
    schema_version: u32,
    #[serde(default)]
    media_type: String,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
}

/// Checks that content is a manifest or index that the store accepts. A fuzz target uses this check.
///
/// # Errors
/// The reason why the store does not accept the content.
pub fn check_manifest(content: &[u8], platform: &Platform) -> Result<(), ManifestError> {
    match Document::parse(content)? {
        Document::Manifest(_) => Ok(()),
        Document::Index(entries) => choose(&entries, platform).map(|_| ()),
    }
}

impl Document {
    /// Parses a manifest or index. Its own fields decide about its kind.
    pub(crate) fn parse(content: &[u8]) -> Result<Self, ManifestError> {
        if content.len() as u64 > MANIFEST_BYTES_MAX {
            return Err(ManifestError::TooLong);
        }
        let document: AnyDocument = serde_json::from_slice(content)
            .map_err(|error| ManifestError::Form(printable(&error.to_string())))?;
        if document.schema_version == 1 || document.media_type.starts_with(SCHEMA_1_PREFIX) {
            return Err(ManifestError::Schema1);
        }
        match (document.config, document.layers, document.manifests) {
            (Some(config), layers, None) => {
                let manifest = Manifest {
                    config,
                    layers: layers.unwrap_or_default(),
                };
                manifest.check()?;
                Ok(Self::Manifest(manifest))
            }
            (None, None, Some(entries)) if entries.len() > INDEX_ENTRIES_MAX => {
                Err(ManifestError::IndexEntries(entries.len()))
            }
            (None, None, Some(entries)) => Ok(Self::Index(entries)),
            (_, _, Some(_)) => Err(ManifestError::Ambiguous),
            (None, _, None) => Err(ManifestError::Neither),
        }
    }
}

impl Manifest {
    fn check(&self) -> Result<(), ManifestError> {
        if !CONFIG_MEDIA_TYPES.contains(&self.config.media_type.as_str()) {
            return Err(ManifestError::NotAnImage(printable(&self.config.media_type)));
        }
        if self.layers.len() > LAYERS_MAX {
            return Err(ManifestError::Layers(self.layers.len()));
        }
        if let Some(layer) = self.layers.iter().find(|layer| !is_layer(&layer.media_type)) {
            return Err(ManifestError::LayerMediaType {
                digest: layer.digest.clone(),
                media_type: printable(&layer.media_type),
            });
        }
        if let Some(layer) = self.layers.iter().find(|layer| layer.size > ARCHIVE_BYTES_MAX) {
            return Err(ManifestError::LayerBytes {
                digest: layer.digest.clone(),
                bytes: layer.size,
            });
        }
        let sizes = self.layers.iter().map(|layer| layer.size);
        match sizes.fold(0, u64::saturating_add) {
            bytes if bytes > IMAGE_BYTES_MAX => Err(ManifestError::ImageBytes(bytes)),
            _ => Ok(()),
        }
    }
}

/// Returns `true` for tar archives. The content decides about the compression, since media types are often wrong.
fn is_layer(media_type: &str) -> bool {
    matches!(
        media_type,
        "application/vnd.oci.image.layer.v1.tar"
            | "application/vnd.oci.image.layer.v1.tar+gzip"
            | "application/vnd.oci.image.layer.v1.tar+zstd"
            | "application/vnd.docker.image.rootfs.diff.tar"
            | "application/vnd.docker.image.rootfs.diff.tar.gzip"
            | "application/vnd.docker.image.rootfs.diff.tar.zstd"
    )
}

/// Chooses the image for a platform from an index. Entries without platform count as images of any platform.
pub(crate) fn choose<'a>(
    entries: &'a [Descriptor],
    platform: &Platform,
) -> Result<&'a Descriptor, ManifestError> {
    let preference = |entry: &Descriptor| match &entry.platform {
        Some(offered) => platform.preference_of(offered),
        None => Some(u8::MAX),
    };
    let candidates = entries
        .iter()
        .filter_map(|entry| Some((preference(entry)?, entry)));
    match candidates.min_by_key(|(preference, _)| *preference) {
        Some((_, entry)) => Ok(entry),
        None => Err(ManifestError::Platform {
            required: Box::new(platform.clone()),
            offered: entries
                .iter()
                .filter_map(|entry| Some(entry.platform.as_ref()?.printable()))
                .take(LISTED_PLATFORMS_MAX)
                .collect(),
        }),
    }
}

fn list(platforms: &[Platform]) -> String {
    let names: Vec<String> = platforms.iter().map(Platform::to_string).collect();
    if names.is_empty() {
        return "none".to_owned();
    }
    names.join(", ")
}
