//! Reasons why a layer is not unpacked.

use std::io;

use super::limits::{ATTRIBUTE_BYTES_MAX, ATTRIBUTES_MAX, DEPTH_MAX, Limit, NAME_BYTES_MAX, PATH_BYTES_MAX};
use crate::digest::Digest;

/// Reason why a layer is not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// The layer exceeds a limit.
    #[error("the layer is refused: it has {0}")]
    Limit(#[from] Limit),
    /// An entry is rejected.
    #[error("the layer is rejected: entry {path:?}: {reason}")]
    Entry {
        /// Path of the entry in the archive.
        path: String,
        /// Reason.
        reason: EntryError,
    },
    /// The archive is not a tar archive.
    #[error("the layer is not a tar archive, alone or compressed with gzip or zstd: {0}")]
    Archive(&'static str),
    /// The archive ends before its last entry is complete.
    #[error("the layer is truncated")]
    Truncated,
    /// The content cannot be read or decompressed.
    #[error("the layer cannot be read: {0}")]
    Read(#[source] io::Error),
    /// The content has another digest.
    #[error("expected a layer with the digest {expected}, found {actual}")]
    Digest {
        /// Digest in the manifest or configuration.
        expected: Box<Digest>,
        /// Digest of the content.
        actual: Box<Digest>,
    },
    /// A file cannot be written. A retry can help if the disk was full.
    #[error("entry {path:?} cannot be written: {source}")]
    Write {
        /// Path of the entry in the archive.
        path: String,
        /// Cause.
        source: io::Error,
    },
    /// The pull was cancelled.
    #[error("the pull was cancelled")]
    Cancelled,
}

/// Reason why an entry is rejected.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// The path leaves the root.
    #[error("the path contains \"..\"")]
    Parent,
    /// The path or the target of a link has a zero byte.
    #[error("the path contains a zero byte")]
    ZeroByte,
    /// The path is too long.
    #[error("the path has more than {PATH_BYTES_MAX} bytes, or a name in it more than {NAME_BYTES_MAX}")]
    PathBytes,
    /// The path is too deep.
    #[error("the path has more than {DEPTH_MAX} names")]
    Depth,
    /// The path goes through a symbolic link or a file.
    #[error("a parent of the path is a symbolic link or a file")]
    ParentNotDirectory,
    /// The root is replaced by something else than a directory.
    #[error("the root of a layer must be a directory")]
    Root,
    /// The entry has a type that a layer cannot have.
    #[error("the entry type {0:?} is not supported")]
    Kind(char),
    /// The entry is a sparse file, whose size is independent of the archive.
    #[error("sparse files are not supported")]
    Sparse,
    /// A number in the header is invalid.
    #[error("the {0} is invalid")]
    Number(&'static str),
    /// An extended header is invalid.
    #[error("the extended header is invalid")]
    ExtendedHeader,
    /// A link has no target.
    #[error("the link has no target")]
    NoTarget,
    /// The target of a hard link is absent, a directory or a whiteout.
    #[error("the target of the hard link is not a file of this layer")]
    HardLink,
    /// A whiteout names nothing that a layer can hide.
    #[error("the whiteout names no file")]
    Whiteout,
    /// There are too many or too long extended attributes.
    #[error(
        "more than {ATTRIBUTES_MAX} extended attributes, or one of more than {ATTRIBUTE_BYTES_MAX} bytes"
    )]
    Attributes,
}

impl LayerError {
    /// Returns the error of a read: of a limit, of the end of the content, or of the reader itself.
    pub(crate) fn of_read(error: io::Error) -> Self {
        let inner = error.get_ref();
        if let Some(limit) = inner.and_then(|inner| inner.downcast_ref::<Limit>()) {
            return Self::Limit(*limit);
        }
        if inner.is_some_and(|inner| inner.is::<CancelledRead>()) {
            return Self::Cancelled;
        }
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Truncated,
            _ => Self::Read(error),
        }
    }
}

/// Marks the error of a read that was cancelled.
#[derive(Debug, thiserror::Error)]
#[error("cancelled")]
pub(crate) struct CancelledRead;
