//! Loading of images from archives of `docker save` and of OCI layouts, and from OCI layout directories.

mod content;
mod docker_archive;
mod layout;
mod name;

#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::config::{ConfigError, ParsedConfig};
use crate::digest::Digest;
use crate::image::Image;
use crate::layer::{LayerDigests, LayerError};
use crate::manifest::ManifestError;
use crate::reference::{Reference, ReferenceError};
use crate::store::{ImageDigests, ImageStore, LayerOrigin, StoreError, VerifiedContent};

use content::Content;

/// Maximum number of layers that are unpacked at the same time. More would wait for the disk.
const CONCURRENT_LAYERS_MAX: usize = 3;
/// Maximum number of attempts to store an image, if another process removes its layers meanwhile.
const COMMIT_ATTEMPTS_MAX: usize = 3;

/// Reason why an archive is not loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The archive or directory cannot be read.
    #[error("{path}: {source}")]
    Open {
        /// Path of the archive.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The archive itself is not a tar archive.
    #[error("the archive cannot be read: {0}")]
    Archive(#[source] LayerError),
    /// The archive has too many members.
    #[error("expected an archive of `docker save` or an OCI layout, found more than {0} members")]
    Members(usize),
    /// A member that another one names is absent.
    #[error("the archive has no {0:?}")]
    Missing(String),
    /// A member is too long.
    #[error("{0:?} in the archive is too long")]
    TooLong(String),
    /// A member has another digest than its name.
    #[error("expected {expected} in the archive, found content with the digest {actual}")]
    Digest {
        /// Digest in the reference to the member.
        expected: Box<Digest>,
        /// Digest of the content.
        actual: Box<Digest>,
    },
    /// There is neither an index nor a list of images.
    #[error("the archive contains no image: it has neither index.json nor manifest.json")]
    NoImage,
    /// The list of images is not JSON of the expected form.
    #[error("manifest.json has an invalid form: {0}")]
    List(#[source] serde_json::Error),
    /// A manifest is invalid.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The name of an image is invalid.
    #[error("the archive names an image {name:?}: {source}")]
    Name {
        /// Name in the archive.
        name: String,
        /// Cause.
        source: ReferenceError,
    },
    /// An image has no name.
    #[error("an image in the archive has no name; give it one (--name)")]
    Unnamed,
    /// A name was given for several images.
    #[error("the archive has {0} images; a name can be given to one image only")]
    Several(usize),
    /// The store fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Other processes remove the layers of the image repeatedly.
    #[error("other processes removed layers of {0} meanwhile; load it again")]
    Removed(Box<Reference>),
}

/// Archive or directory with images.
pub struct LoadSource {
    pub(crate) kind: LoadSourceKind,
    name: Option<Reference>,
}

/// Kind of a source.
pub(crate) enum LoadSourceKind {
    Path(PathBuf),
    Stream(Box<dyn Read + Send>),
}

impl LoadSource {
    /// Creates the source of an archive or of an OCI layout directory.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Self {
            kind: LoadSourceKind::Path(path.into()),
            name: None,
        }
    }

    /// Creates the source of an archive that cannot be read twice, such as standard input. The load first copies the
    /// archive to the disk of the store.
    pub fn stream(reader: impl Read + Send + 'static) -> Self {
        Self {
            kind: LoadSourceKind::Stream(Box::new(reader)),
            name: None,
        }
    }

    /// Gives the only image of the archive this name, instead of the names in the archive.
    #[must_use]
    pub fn named(mut self, name: Reference) -> Self {
        self.name = Some(name);
        self
    }
}

impl fmt::Debug for LoadSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: &Path = match &self.kind {
            LoadSourceKind::Path(path) => path,
            LoadSourceKind::Stream(_) => Path::new("-"),
        };
        formatter
            .debug_struct("LoadSource")
            .field("path", &path)
            .field("name", &self.name)
            .finish()
    }
}

/// Image that an archive contains.
pub(crate) struct FoundImage {
    pub names: Vec<Reference>,
    pub target: Digest,
    pub manifest: Digest,
    pub config: Digest,
    pub parsed_config: ParsedConfig,
    /// Members with the layers, with the digests of their contents if the manifest states them.
    pub layers: Vec<(String, Option<Digest>)>,
    pub documents: VerifiedContent,
}

impl ImageStore {
    /// Loads all images of an archive. Images that the archive has for other platforms only are an error.
    ///
    /// # Errors
    /// [`LoadError`]. Images before the failed one stay loaded.
    pub fn load(&self, source: LoadSource) -> Result<Vec<Image>, LoadError> {
        let content = Content::open(source.kind, &self.scratch_directory())?;
        let platform = &self.settings().platform;
        let mut found = match layout::images(&content, platform)? {
            Some(found) => found,
            None => docker_archive::images(&content, platform)?.ok_or(LoadError::NoImage)?,
        };
        if let Some(name) = source.name {
            match found.as_mut_slice() {
                [only] => only.names = vec![name],
                several => return Err(LoadError::Several(several.len())),
            }
        }
        if found.iter().any(|image| image.names.is_empty()) {
            return Err(LoadError::Unnamed);
        }
        let mut images = Vec::new();
        for image in &found {
            images.extend(self.store_image(&content, image)?);
        }
        Ok(images)
    }

    fn store_image(&self, content: &Content, image: &FoundImage) -> Result<Vec<Image>, LoadError> {
        let layers = &image.parsed_config.diff_ids;
        let _layer_lock = self.lock_layers(layers)?;
        let parts = ImageDigests {
            target: image.target.clone(),
            manifest: image.manifest.clone(),
            config: image.config.clone(),
            layers: layers.clone(),
        };
        let mut stored = Vec::new();
        for name in &image.names {
            let mut attempts = 0..COMMIT_ATTEMPTS_MAX;
            let committed = loop {
                if attempts.next().is_none() {
                    return Err(LoadError::Removed(Box::new(name.clone())));
                }
                self.unpack_layers(content, image)?;
                if let Some(committed) = self.commit(name, parts.clone(), &image.documents)? {
                    break committed;
                }
            };
            stored.push(committed);
        }
        Ok(stored)
    }

    /// Unpacks the layers that the store does not have, several at the same time.
    fn unpack_layers(&self, content: &Content, image: &FoundImage) -> Result<(), LoadError> {
        let mut missing = Vec::new();
        for (layer, source) in image.parsed_config.diff_ids.iter().zip(&image.layers) {
            let is_repeated = missing.iter().any(|(earlier, _)| *earlier == layer);
            if !is_repeated && !self.has_layer(layer)? {
                missing.push((layer, source));
            }
        }
        let (next, cancelled) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
        let failure = Mutex::new(None);
        let work = || {
            while let Some((layer, (member, compressed))) = missing.get(next.fetch_add(1, Ordering::Relaxed))
            {
                let digests = LayerDigests {
                    compressed: compressed.clone(),
                    uncompressed: (*layer).clone(),
                };
                let member = content.require(member);
                let added = member.and_then(|member| {
                    Ok(self.add_layer(member, &digests, LayerOrigin::Public, Arc::clone(&cancelled))?)
                });
                if let Err(error) = added {
                    // The others end with "cancelled", which is not the cause.
                    if !cancelled.swap(true, Ordering::Relaxed)
                        && let Ok(mut failure) = failure.lock()
                    {
                        *failure = Some(error);
                    }
                    return;
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..CONCURRENT_LAYERS_MAX.min(missing.len()) {
                scope.spawn(work);
            }
        });
        match failure.into_inner() {
            Ok(Some(error)) => Err(error),
            _ => Ok(()),
        }
    }
}
