//! Unpacking of layers: tar archives, alone or compressed, into one directory each.
//!
//! A layer is untrusted. Its entries are written through directory descriptors below a private directory, without
//! following symbolic links, and within the limits of [`limits`].

pub(crate) mod archive;
pub(crate) mod compression;
mod error;
pub(crate) mod limits;
mod pax;
mod root;
mod unpacker;
pub(crate) mod whiteout;

#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use error::{EntryError, LayerError};

use archive::Archive;
use compression::Decompressed;
use limits::{Limit, Limits};
use root::Root;
use unpacker::Unpacker;
use whiteout::OverlayAttributes;

use crate::digest::{Algorithm, Digest};
use crate::settings::DevicePolicy;

/// Amount of an unpacked layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnpackedSize {
    /// Bytes of all files.
    pub bytes: u64,
    /// Entries of the archive.
    pub entries: u64,
}

/// Expected digests of a layer.
#[derive(Clone, Debug)]
pub(crate) struct LayerDigests {
    /// Digest of the content as it is read, or `None` if it is verified already.
    pub compressed: Option<Digest>,
    /// Digest of the uncompressed archive.
    pub uncompressed: Digest,
}

/// Rules by which a layer is unpacked.
#[derive(Clone, Debug)]
pub(crate) struct UnpackOptions {
    pub devices: DevicePolicy,
    pub attributes: OverlayAttributes,
    pub limits: Limits,
    /// Ends the unpacking once it is true.
    pub cancelled: Arc<AtomicBool>,
}

/// Unpacks a layer into an empty directory, and verifies its digests.
///
/// After an error, the directory has a part of the layer and must be deleted.
pub(crate) fn unpack(
    source: impl Read,
    digests: &LayerDigests,
    directory: &Path,
    options: &UnpackOptions,
) -> Result<UnpackedSize, LayerError> {
    let compressed_algorithm = digests.compressed.as_ref().map(Digest::algorithm);
    let algorithms = (compressed_algorithm, digests.uncompressed.algorithm());
    let (size, compressed, uncompressed) = unpack_unverified(source, algorithms, directory, options)?;
    verify(digests.compressed.as_ref(), compressed)?;
    verify(Some(&digests.uncompressed), uncompressed)?;
    Ok(size)
}

/// Unpacks a layer of any digest into an empty directory, for fuzz targets and tests.
///
/// # Errors
/// The reason why the layer is not unpacked.
pub fn unpack_for_test(source: &[u8], directory: &Path) -> Result<UnpackedSize, LayerError> {
    let failed = |source| LayerError::Write {
        path: directory.display().to_string(),
        source,
    };
    let options = UnpackOptions {
        devices: DevicePolicy::Skip,
        attributes: OverlayAttributes::probe(directory).map_err(failed)?,
        limits: Limits::default(),
        cancelled: Arc::default(),
    };
    let unpacked = unpack_unverified(source, (None, Algorithm::Sha256), directory, &options);
    unpacked.map(|(size, _, _)| size)
}

type Unverified = (UnpackedSize, Option<Digest>, Option<Digest>);

fn unpack_unverified(
    source: impl Read,
    algorithms: (Option<Algorithm>, Algorithm),
    directory: &Path,
    options: &UnpackOptions,
) -> Result<Unverified, LayerError> {
    let root = Root::open(directory, options.attributes).map_err(|source| LayerError::Write {
        path: directory.display().to_string(),
        source,
    })?;
    let reader = Decompressed::new(source, algorithms, options.limits, Arc::clone(&options.cancelled));
    let mut archive = Archive::new(reader.map_err(LayerError::of_read)?);
    let mut unpacker = Unpacker::new(root, options.devices);
    let mut entries = 0;
    while let Some(entry) = archive.next()? {
        entries += 1;
        if entries > options.limits.entries {
            return Err(Limit::Entries.into());
        }
        unpacker.unpack(&entry, &mut archive)?;
    }
    let bytes = unpacker.size_bytes;
    unpacker.finish()?;
    let (compressed, uncompressed) = archive.into_inner().finish().map_err(LayerError::of_read)?;
    Ok((UnpackedSize { bytes, entries }, compressed, uncompressed))
}

fn verify(expected: Option<&Digest>, actual: Option<Digest>) -> Result<(), LayerError> {
    match (expected, actual) {
        (Some(expected), Some(actual)) if *expected != actual => Err(LayerError::Digest {
            expected: Box::new(expected.clone()),
            actual: Box::new(actual),
        }),
        _ => Ok(()),
    }
}
