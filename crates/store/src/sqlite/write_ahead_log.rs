//! The write-ahead log's length, kept ahead of what is written.
//!
//! A commit is durable when the log's new frames are on the disk. Where they make the file longer, its new length has to get there
//! too, and that is a second trip in the file system's own journal. So the log is lengthened by zeros beforehand, in
//! steps; SQLite begins it anew once it holds so many pages, and needs no more from then on. Zeros behind the last
//! frame are no frames: their salt is not the log's (SQLite's file format, section 4.3).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes that the log is lengthened by at a time: some hundred commits, and a few milliseconds of a disk's time.
const STEP_BYTES: u64 = 4 << 20;
/// Bytes of zeros that are written at a time.
const BLOCK_BYTES: usize = 64 << 10;

/// A log and its length.
pub(super) struct WriteAheadLog {
    path: PathBuf,
    file: File,
    /// The length that it was brought to.
    ready_bytes: u64,
    /// The length at which SQLite begins it anew.
    needed_bytes: u64,
}

impl WriteAheadLog {
    /// The log of the database at `path`, which must be open.
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

    /// Whether what was prepared is used up, and more will be needed.
    pub(super) fn is_short(&self) -> bool {
        self.ready_bytes < self.needed_bytes
            && self
                .file
                .metadata()
                .is_ok_and(|log| log.len() > self.ready_bytes || self.ready_bytes == 0)
    }

    /// Makes the log longer by a step. The database must be locked for writing meanwhile: whoever adds a frame does so behind
    /// the last one.
    pub(super) fn lengthen(&mut self) {
        if let Err(error) = self.try_lengthen() {
            // It is as it was, and only slower.
            tracing::debug!(path = %self.path.display(), %error, "the log is not made longer beforehand");
            self.ready_bytes = self.needed_bytes;
        }
    }

    fn try_lengthen(&mut self) -> io::Result<()> {
        let end = self.file.metadata()?.len();
        let zeros = [0; BLOCK_BYTES];
        let blocks = (end..end + STEP_BYTES).step_by(BLOCK_BYTES);
        for at in blocks {
            if let Err(error) = self.file.write_all_at(&zeros, at) {
                self.file.set_len(end)?;
                return Err(error);
            }
        }
        self.ready_bytes = end + STEP_BYTES;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
