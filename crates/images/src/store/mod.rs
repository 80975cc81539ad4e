//! Images on disk.
//!
//! | Path in the store | Content |
//! |---|---|
//! | `lock` | lock file; a change of the paths below holds it exclusively |
//! | `blobs/` | manifests, indexes and configurations, by digest |
//! | `names/` | one record for each name: digests of the image's parts |
//! | `layers/` | unpacked layers, one directory for each digest of the uncompressed archive, with a record beside it |
//! | `protected/` | images that each program uses |
//! | `claims/` | layers that a running pull or load needs, locked by it |
//! | `downloads/` | compressed layers during their download, locked by it |
//! | `unpacking/` | directories that are not complete yet, each locked by its writer |
//! | `trash/` | directories to delete |
//!
//! A layer is complete when its record exists. Records are written after the layer has reached the disk.

mod blobs;
mod disk;
mod layer_lock;
mod layers;
mod lock;
mod names;
mod protection;
mod prune;
mod trash;

#[cfg(test)]
mod tests;

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::config::{ConfigError, ParsedConfig};
use crate::digest::Digest;
use crate::image::{Image, ImageId, ImageSummary};
use crate::layer::limits::Limits;
use crate::layer::whiteout::OverlayAttributes;
use crate::layer::{self, LayerDigests, LayerError, UnpackOptions};
use crate::reference::Reference;
use crate::settings::StoreSettings;

pub(crate) use layers::LayerOrigin;
use layers::LayerRecord;
pub(crate) use lock::LockedFile;
pub(crate) use names::{ImageDigests, NameRecord, VerifiedContent};
pub use prune::{DiskThresholds, PruneReport};

/// Directories in the store, which [`ImageStore::open`] creates.
const DIRECTORIES: [&str; 8] = [
    "blobs",
    "names",
    "layers",
    "protected",
    "claims",
    "downloads",
    "unpacking",
    "trash",
];

/// Reason why the store cannot do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or directory of the store cannot be read or written. A retry can help if the disk was full.
    #[error("image store: {path}: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Another program changed a file of the store, or the file is damaged.
    #[error("image store: {path} is damaged: {reason}; pull or load the image again")]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Difference.
        reason: String,
    },
    /// A layer cannot be unpacked.
    #[error("layer {digest}: {source}")]
    Layer {
        /// Digest of the uncompressed layer.
        digest: Box<Digest>,
        /// Cause.
        source: LayerError,
    },
    /// The configuration of a stored image is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No image has that name.
    #[error("no image has the name {0}")]
    NotFound(Box<Reference>),
    /// A container uses the image.
    #[error("{reference} is in use by {holder}; remove its containers first")]
    InUse {
        /// Name of the image.
        reference: Box<Reference>,
        /// Program whose container uses the image.
        holder: String,
    },
    /// The name of a holder is not valid as a file name.
    #[error("expected a name of a holder with lower-case letters, digits and -, found {0:?}")]
    Holder(String),
    /// The thresholds contradict each other.
    #[error(
        "the low threshold ({low} %) must be below the high threshold ({high} %), and both at most 100 %"
    )]
    Thresholds {
        /// Upper threshold in percent.
        high: u8,
        /// Lower threshold in percent.
        low: u8,
    },
}

impl StoreError {
    /// Returns a function that adds a path to the error of a file.
    pub(crate) fn at(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File {
            path: path.as_ref().to_owned(),
            source,
        }
    }
}

/// Images of this host, in one directory. Several processes may use it. A clone is the same store.
#[derive(Clone, Debug)]
pub struct ImageStore {
    inner: Arc<Inner>,
}

/// State that all clones of a store share.
#[derive(Debug)]
struct Inner {
    directory: PathBuf,
    settings: StoreSettings,
    overlay_attributes: OverlayAttributes,
}

impl ImageStore {
    /// Opens the store in a directory, which is created with mode 0700 if it is absent.
    ///
    /// # Errors
    /// [`StoreError::File`] if the directory cannot be created or written.
    pub fn open(directory: &Path, settings: StoreSettings) -> Result<Self, StoreError> {
        trust::private_file::create_directory(directory).map_err(StoreError::at(directory))?;
        for name in DIRECTORIES {
            let path = directory.join(name);
            trust::private_file::create_directory(&path).map_err(StoreError::at(&path))?;
        }
        let unpacking = directory.join("unpacking");
        let overlay_attributes = OverlayAttributes::probe(&unpacking).map_err(StoreError::at(&unpacking))?;
        let store = Self {
            inner: Arc::new(Inner {
                directory: directory.to_owned(),
                settings,
                overlay_attributes,
            }),
        };
        store.collect_leftovers()?;
        Ok(store)
    }

    /// Returns the settings of the store.
    pub fn settings(&self) -> &StoreSettings {
        &self.inner.settings
    }

    /// Returns the names of the extended attributes in layers. An overlay file system needs the option `userxattr` for
    /// [`OverlayAttributes::User`].
    pub fn overlay_attributes(&self) -> OverlayAttributes {
        self.inner.overlay_attributes
    }

    /// Returns the image with a name, or `None` if it is absent or incomplete.
    ///
    /// A name with a digest finds an image of the repository under any tag.
    ///
    /// # Errors
    /// [`StoreError::File`] and [`StoreError::Damaged`] for the files of the store.
    pub fn find(&self, reference: &Reference) -> Result<Option<Image>, StoreError> {
        let _lock = self.lock_shared()?;
        match self.name_record(reference)? {
            Some(record) => self.image(&record, reference),
            None => Ok(None),
        }
    }

    /// Returns all names with their images, in the order of the names.
    ///
    /// # Errors
    /// [`StoreError::File`] and [`StoreError::Damaged`] for the files of the store.
    pub fn list(&self) -> Result<Vec<ImageSummary>, StoreError> {
        let _lock = self.lock_shared()?;
        let protected = self.protected()?;
        let mut summaries = Vec::new();
        for (record, last_used) in self.name_records()? {
            let holders = protected
                .iter()
                .filter(|(_, images)| images.contains(&record.parts));
            summaries.push(ImageSummary {
                holders: holders.map(|(holder, _)| holder.clone()).collect(),
                id: ImageId(record.parts.config),
                reference: record.reference,
                digest: record.parts.target,
                size_bytes: record.size_bytes,
                last_used,
            });
        }
        summaries.sort_by(|one, other| one.reference.cmp(&other.reference));
        Ok(summaries)
    }

    /// Removes a name, and the parts of its image that nothing else needs.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::InUse`] if this is the last name of an image that a program uses.
    pub fn remove(&self, reference: &Reference) -> Result<(), StoreError> {
        let lock = self.lock_exclusive()?;
        let not_found = || StoreError::NotFound(Box::new(reference.clone()));
        let record = self.name_record(reference)?.ok_or_else(not_found)?;
        let has_other_name = self
            .name_records()?
            .iter()
            .any(|(other, _)| other.parts == record.parts && other.reference != record.reference);
        let protected = self.protected()?;
        let holder = protected
            .iter()
            .find(|(_, images)| images.contains(&record.parts));
        if let Some((holder, _)) = holder
            && !has_other_name
        {
            return Err(StoreError::InUse {
                reference: Box::new(record.reference),
                holder: holder.clone(),
            });
        }
        self.delete_name(&record.reference)?;
        self.sweep()?;
        drop(lock);
        self.empty_trash()
    }

    /// Unpacks a layer and verifies it. If the store has the layer, this adds its origin only.
    pub(crate) fn add_layer(
        &self,
        source: impl Read,
        digests: &LayerDigests,
        origin: LayerOrigin,
        cancelled: Arc<AtomicBool>,
    ) -> Result<(), StoreError> {
        let layer = &digests.uncompressed;
        let unpacking = self.begin_unpacking()?;
        let options = UnpackOptions {
            devices: self.inner.settings.devices,
            attributes: self.inner.overlay_attributes,
            limits: Limits::default(),
            cancelled,
        };
        let unpacked = layer::unpack(source, digests, unpacking.directory(), &options);
        let size = unpacked.map_err(|source| StoreError::Layer {
            digest: Box::new(layer.clone()),
            source,
        })?;
        let record = LayerRecord {
            size_bytes: size.bytes,
            entries: size.entries,
            ..LayerRecord::default()
        };
        unpacking.commit(layer, record, origin)
    }

    /// Returns the image of a record if all its layers are complete.
    fn image(&self, record: &NameRecord, reference: &Reference) -> Result<Option<Image>, StoreError> {
        let parts = &record.parts;
        for layer in &parts.layers {
            if !self.has_layer(layer)? {
                return Ok(None);
            }
        }
        let Some(config) = self.blob(&parts.config)? else {
            return Ok(None);
        };
        Ok(Some(Image {
            id: ImageId(parts.config.clone()),
            reference: reference.clone(),
            digest: parts.target.clone(),
            manifest: parts.manifest.clone(),
            config: ParsedConfig::parse(&config)?.defaults,
            layers: parts.layers.iter().map(|layer| self.layer_path(layer)).collect(),
            size_bytes: record.size_bytes,
        }))
    }

    /// Returns the directory for files without names.
    pub(crate) fn scratch_directory(&self) -> PathBuf {
        self.path("downloads")
    }

    /// Returns the file for the download of a compressed layer. A repository does not touch the downloads of others: it
    /// could delay them, or give them a wrong start.
    pub(crate) fn download_path(&self, reference: &Reference, digest: &Digest) -> PathBuf {
        let source = format!("{}/{}@{digest}", reference.registry(), reference.repository());
        self.path_of("downloads", &Digest::sha256(source.as_bytes()))
    }

    fn path(&self, directory: &str) -> PathBuf {
        self.inner.directory.join(directory)
    }

    fn path_of(&self, directory: &str, digest: &Digest) -> PathBuf {
        self.path(directory).join(digest.file_name())
    }
}
