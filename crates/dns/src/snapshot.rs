//! The last good state on disk: what is answered when this server starts while the API is away.
//!
//! The file is replaced as a whole, so a crash leaves the old one or the new one. It says when it was written
//! and ends with a checksum; a file that is torn, changed or too old is not used.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::records::{Index, SavedError, Settings};

/// What the file begins with; another number for another form.
const MAGIC: &[u8; 16] = b"portolan dns 1\n\n";
/// Octets of the time and of the checksum.
const TIME_OCTETS: usize = 8;
const CHECKSUM_OCTETS: usize = 32;
/// The largest file that is read or written: 50,000 Services with 250,000 endpoints take a tenth of it.
const FILE_OCTETS_MAX: u64 = 256 << 20;

/// Why there is no last good state. Only the first may pass by itself.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is none of ours, torn, or changed.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// The content is not understood although it is whole.
    #[error("{}: {source}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Where.
        source: SavedError,
    },
    /// The state is too old to be of use.
    #[error("{} is {age_seconds} s old, which is too old to be served", path.display())]
    TooOld {
        /// The file.
        path: PathBuf,
        /// How old it is.
        age_seconds: u64,
    },
}

/// Replaces the file by the present state of `index`.
pub fn write(path: &Path, index: &Index, unix_seconds: u64) -> Result<(), SnapshotError> {
    let mut content = Vec::new();
    content.extend(MAGIC);
    content.extend(unix_seconds.to_be_bytes());
    index.save(&mut content);
    let checksum = Sha256::digest(&content);
    content.extend(checksum);
    if content.len() as u64 > FILE_OCTETS_MAX {
        return Err(SnapshotError::Damaged {
            path: path.into(),
            what: "the state is larger than a file may be",
        });
    }
    let failed = |source| SnapshotError::Io {
        path: path.into(),
        source,
    };
    let beside = path.with_extension("new");
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(&content)?;
        file.sync_all()
    });
    written
        .and_then(|()| std::fs::rename(&beside, path))
        .and_then(
            |()| match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                Some(parent) => File::open(parent)?.sync_all(),
                None => Ok(()),
            },
        )
        .map_err(failed)
}

/// Reads the state back, with the second at which it was written.
pub fn read(
    path: &Path,
    settings: Settings,
    now_unix_seconds: u64,
    age_seconds_max: u64,
) -> Result<(Index, u64), SnapshotError> {
    let failed = |source| SnapshotError::Io {
        path: path.into(),
        source,
    };
    let damaged = |what| SnapshotError::Damaged {
        path: path.into(),
        what,
    };
    let mut content = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_OCTETS_MAX + 1)
        .read_to_end(&mut content)
        .map_err(failed)?;
    let body = content
        .len()
        .checked_sub(CHECKSUM_OCTETS)
        .and_then(|end| content.split_at_checked(end));
    let (signed, checksum) = body.ok_or_else(|| damaged("it is too short"))?;
    let rest = signed
        .strip_prefix(MAGIC)
        .ok_or_else(|| damaged("it is of another form"))?;
    if Sha256::digest(signed).as_slice() != checksum {
        return Err(damaged("its checksum is another one"));
    }
    let (time, saved) = rest
        .split_first_chunk::<TIME_OCTETS>()
        .ok_or_else(|| damaged("it is too short"))?;
    let written = u64::from_be_bytes(*time);
    let age_seconds = now_unix_seconds.saturating_sub(written);
    if age_seconds > age_seconds_max {
        return Err(SnapshotError::TooOld {
            path: path.into(),
            age_seconds,
        });
    }
    let index = Index::load(settings, saved).map_err(|source| SnapshotError::Content {
        path: path.into(),
        source,
    })?;
    Ok((index, written))
}

#[cfg(test)]
mod tests;
