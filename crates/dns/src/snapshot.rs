//! Snapshot of the index on disk. A server answers from it if the API does not respond at the start.
//!
//! The file is replaced atomically. It contains the time of writing and a checksum; a torn, modified or old file is
//! rejected.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::records::{Index, IndexFormatError, Settings};

/// Magic number of the file; the digit is the version of the format.
const MAGIC: &[u8; 16] = b"portolan dns 1\n\n";
/// Sizes of the time and of the checksum in bytes.
const TIME_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 32;
/// Limit of the file in bytes. 50,000 Services with 250,000 endpoints use a tenth of it.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Failure to read or write a snapshot. A retry helps after an I/O error only.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file is torn, modified or not a snapshot.
    #[error("{}: expected a snapshot, {subject}", path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Description of the damage.
        subject: &'static str,
    },
    /// The checksum is valid, but the content is malformed.
    #[error("{}: {source}", path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// Position of the fault.
        source: IndexFormatError,
    },
    /// The state is larger than a snapshot may be. The former snapshot stays.
    #[error("{}: expected a state of at most {FILE_BYTES_MAX} bytes, found {bytes}; it is not written", path.display())]
    TooLarge {
        /// Path of the file.
        path: PathBuf,
        /// Size of the state in bytes.
        bytes: usize,
    },
    /// The snapshot is too old.
    #[error("{}: snapshot is {age_seconds} s old, older than --state-max-age; it is not used", path.display())]
    TooOld {
        /// Path of the file.
        path: PathBuf,
        /// Age in seconds.
        age_seconds: u64,
    },
}

/// Writes a snapshot of `index`.
///
/// # Errors
///
/// Returns [`SnapshotError`] if the file cannot be written or would be too large.
pub(crate) fn write(path: &Path, index: &Index, unix_seconds: u64) -> Result<(), SnapshotError> {
    let mut content = Vec::new();
    content.extend(MAGIC);
    content.extend(unix_seconds.to_be_bytes());
    index.save(&mut content);
    let checksum = Sha256::digest(&content);
    content.extend(checksum);
    if content.len() as u64 > FILE_BYTES_MAX {
        return Err(SnapshotError::TooLarge {
            path: path.into(),
            bytes: content.len(),
        });
    }
    let io_error = |source| SnapshotError::Io {
        path: path.into(),
        source,
    };
    let temporary = path.with_extension("new");
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(&content)?;
        file.sync_all()
    });
    written
        .and_then(|()| std::fs::rename(&temporary, path))
        .and_then(
            |()| match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                Some(parent) => File::open(parent)?.sync_all(),
                None => Ok(()),
            },
        )
        .map_err(io_error)
}

/// Reads a snapshot, and the second at which it was written.
///
/// # Errors
///
/// Returns [`SnapshotError`] if the file cannot be read, is damaged, or is older than `age_seconds_max`.
pub(crate) fn read(
    path: &Path,
    settings: Settings,
    now_unix_seconds: u64,
    age_seconds_max: u64,
) -> Result<(Index, u64), SnapshotError> {
    let io_error = |source| SnapshotError::Io {
        path: path.into(),
        source,
    };
    let damaged = |subject| SnapshotError::Damaged {
        path: path.into(),
        subject,
    };
    let mut content = Vec::new();
    let file = File::open(path).map_err(io_error)?;
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut content)
        .map_err(io_error)?;
    let body = content
        .len()
        .checked_sub(CHECKSUM_BYTES)
        .and_then(|end| content.split_at_checked(end));
    let (signed, checksum) = body.ok_or_else(|| damaged("found a file that is too short"))?;
    let rest = signed
        .strip_prefix(MAGIC)
        .ok_or_else(|| damaged("found another format or version"))?;
    if Sha256::digest(signed).as_slice() != checksum {
        return Err(damaged("but the checksum does not match"));
    }
    let (time, index_bytes) = rest
        .split_first_chunk::<TIME_BYTES>()
        .ok_or_else(|| damaged("found a file that is too short"))?;
    let written = u64::from_be_bytes(*time);
    let age_seconds = now_unix_seconds.saturating_sub(written);
    if age_seconds > age_seconds_max {
        return Err(SnapshotError::TooOld {
            path: path.into(),
            age_seconds,
        });
    }
    let index = Index::load(settings, index_bytes).map_err(|source| SnapshotError::Content {
        path: path.into(),
        source,
    })?;
    Ok((index, written))
}

#[cfg(test)]
mod tests;
