//! Preallocation of the write-ahead log.
//!
//! A commit is durable when the new frames of the log are on disk. If they extend the file, its new length must reach
//! the disk too. That is a second sync in the journal of the file system. Therefore the log is extended by zeros
//! beforehand, in steps. SQLite restarts the log after a number of pages and then needs no further space. Zeros after
//! the last frame are not frames: they do not contain the salt of the log (SQLite file format, section 4.3).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Limits of an extension in bytes. An extension doubles the log between them. The next commit waits for the disk to
/// write the zeros, so the first commits of a process get few. The largest has room for some hundred commits, and costs
/// a few milliseconds of disk time.
const STEP_BYTES_MIN: u64 = 256 << 10;
const STEP_BYTES_MAX: u64 = 4 << 20;
/// Size of a write of zeros in bytes.
const BLOCK_BYTES: usize = 64 << 10;

/// A write-ahead log and its length.
pub(super) struct WriteAheadLog {
    path: PathBuf,
    file: File,
    /// Length after the last extension.
    ready_bytes: u64,
    /// Length at which SQLite restarts the log.
    needed_bytes: u64,
}

impl WriteAheadLog {
    /// Opens the log of the database at `path`, which must be open.
    pub(super) fn open(path: &Path, needed_bytes: u64) -> io::Result<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push("-wal");
        let path = PathBuf::from(name);
        let file = OpenOptions::new().write(true).open(&path)?;
        Ok(Self {
            path,
            file,
            ready_bytes: 0,
            needed_bytes,
        })
    }

    /// Returns true if the preallocated space is used and more will be needed.
    pub(super) fn needs_extension(&self) -> bool {
        self.ready_bytes < self.needed_bytes
            && self
                .file
                .metadata()
                .is_ok_and(|log| log.len() > self.ready_bytes || self.ready_bytes == 0)
    }

    /// Extends the log by a step. The database must be locked for writing: frames are appended after the last
    /// frame.
    pub(super) fn extend(&mut self) {
        if let Err(error) = self.try_extend() {
            // Without the extension, commits are slower but correct.
            tracing::debug!(path = %self.path.display(), %error, "write-ahead log not extended");
            self.ready_bytes = self.needed_bytes;
        }
    }

    fn try_extend(&mut self) -> io::Result<()> {
        let end = self.file.metadata()?.len();
        let step_bytes = step_bytes(end);
        let zeros = [0; BLOCK_BYTES];
        let blocks = (end..end + step_bytes).step_by(BLOCK_BYTES);
        for at in blocks {
            if let Err(error) = self.file.write_all_at(&zeros, at) {
                self.file.set_len(end)?;
                return Err(error);
            }
        }
        self.ready_bytes = end + step_bytes;
        Ok(())
    }
}

/// Returns the size of the extension of a log with a length, a multiple of [`BLOCK_BYTES`].
fn step_bytes(log_bytes: u64) -> u64 {
    log_bytes
        .next_multiple_of(BLOCK_BYTES as u64)
        .clamp(STEP_BYTES_MIN, STEP_BYTES_MAX)
}

#[cfg(test)]
mod tests;
