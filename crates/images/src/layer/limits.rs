//! Limits of a layer. An archive that exceeds one is refused as a whole.

/// Maximum number of entries of a layer. Layers with whole package archives have some 100,000.
pub(crate) const ENTRIES_MAX: u64 = 1_000_000;
/// Maximum number of bytes of the uncompressed archive. Layers with machine-learning libraries have some 10 GiB.
pub(crate) const ARCHIVE_BYTES_MAX: u64 = 32 << 30;
/// Maximum ratio of uncompressed to compressed bytes. Real layers stay below 20; gzip can express 1,032, zstd far more.
pub(crate) const COMPRESSION_RATIO_MAX: u64 = 200;
/// Uncompressed bytes before the ratio counts, since small layers of zeros are harmless.
pub(crate) const RATIO_FREE_BYTES: u64 = 256 << 20;
/// Maximum number of bytes of a path or of the target of a link: `PATH_MAX` of Linux without the final zero.
pub(crate) const PATH_BYTES_MAX: usize = 4_095;
/// Maximum number of bytes of one name: `NAME_MAX` of Linux.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// Maximum number of names in a path. Deletion of a tree holds two descriptors for each level.
pub(crate) const DEPTH_MAX: usize = 128;
/// Maximum number of bytes of one extended header, which is held in memory: paths and attributes.
pub(crate) const EXTENDED_HEADER_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of extended attributes of one entry.
pub(crate) const ATTRIBUTES_MAX: usize = 64;
/// Maximum number of bytes of one extended attribute: `XATTR_SIZE_MAX` of Linux.
pub(crate) const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;
/// Maximum number of bytes of the paths of all directories. They are held in memory until their times can be set.
pub(crate) const DIRECTORY_PATHS_BYTES_MAX: usize = 64 << 20;

/// Limit that a layer exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    /// The archive has too many entries.
    #[error("more than {ENTRIES_MAX} entries")]
    Entries,
    /// The archive is too long.
    #[error("more than {ARCHIVE_BYTES_MAX} bytes after decompression")]
    ArchiveBytes,
    /// The compression is too strong to be genuine.
    #[error("more than {COMPRESSION_RATIO_MAX} times its compressed size after decompression")]
    CompressionRatio,
    /// An extended header is too long.
    #[error("an extended header of more than {EXTENDED_HEADER_BYTES_MAX} bytes")]
    ExtendedHeaderBytes,
    /// The paths of the directories are too long together.
    #[error("paths of directories of more than {DIRECTORY_PATHS_BYTES_MAX} bytes")]
    DirectoryPathsBytes,
}

/// Limits that depend on the amount of data, so that tests can lower them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub entries: u64,
    pub archive_bytes: u64,
    pub ratio_free_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries: ENTRIES_MAX,
            archive_bytes: ARCHIVE_BYTES_MAX,
            ratio_free_bytes: RATIO_FREE_BYTES,
        }
    }
}
