//! Bytes that files occupy on disk, with bounded work. A container owns the files: links are not followed, and a tree
//! of any form is read without recursion.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, statat};
use rustix::io::Errno;

/// Files and directories of one Pod that are counted.
const ENTRIES_MAX: usize = 200_000;
/// Bytes of the paths of directories that wait to be read.
const PATH_BYTES_MAX: usize = 8 << 20;
/// Unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;
const OPEN: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Meter of the files of one Pod.
pub(super) struct Meter {
    /// Entries that may still be counted.
    entries_left: usize,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            entries_left: ENTRIES_MAX,
        }
    }
}

impl Meter {
    /// Returns the bytes of a directory tree. Other file systems in it do not count, and neither do files that cannot be
    /// read or are beyond the bounds.
    pub(super) fn measure(&mut self, root: &Path) -> u64 {
        self.try_measure(root).unwrap_or_else(|error| {
            tracing::debug!(path = %root.display(), %error, "usage of the disk not measured");
            0
        })
    }

    fn try_measure(&mut self, root: &Path) -> io::Result<u64> {
        let top = match openat(CWD, root, OPEN, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(0),
            opened => opened?,
        };
        let mut tree = Tree {
            device: fstat(&top)?.st_dev,
            bytes: 0,
            linked: HashSet::new(),
            pending: Vec::new(),
            pending_bytes: 0,
        };
        tree.read(&top, Path::new(""), &mut self.entries_left);
        while let Some(path) = tree.next_pending() {
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            // The container may have removed or moved it meanwhile.
            if let Ok(directory) = openat2(&top, &path, OPEN, Mode::empty(), resolve) {
                tree.read(&directory, &path, &mut self.entries_left);
            }
        }
        Ok(tree.bytes)
    }
}

/// Directory tree that is being read.
struct Tree {
    device: u64,
    bytes: u64,
    /// Inodes with several names.
    linked: HashSet<u64>,
    /// Paths of directories to read.
    pending: Vec<PathBuf>,
    pending_bytes: usize,
}

impl Tree {
    fn next_pending(&mut self) -> Option<PathBuf> {
        let path = self.pending.pop()?;
        self.pending_bytes = self.pending_bytes.saturating_sub(path.as_os_str().len());
        Some(path)
    }

    /// Counts the entries of a directory and queues its directories. The rest of a directory that is removed meanwhile
    /// does not count.
    fn read(&mut self, directory: &OwnedFd, path: &Path, entries_left: &mut usize) {
        let Ok(entries) = Dir::read_from(directory) else {
            return;
        };
        for entry in entries {
            let Ok(entry) = entry else { return };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Some(left) = entries_left.checked_sub(1) else {
                return;
            };
            *entries_left = left;
            // The container may have removed it meanwhile.
            let Ok(stat) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if stat.st_dev != self.device {
                continue;
            }
            let is_directory = FileType::from_raw_mode(stat.st_mode).is_dir();
            if is_directory {
                self.enqueue(path.join(OsStr::from_bytes(name.to_bytes())));
            } else if stat.st_nlink > 1 && !self.linked.insert(stat.st_ino) {
                continue;
            }
            let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
            self.bytes = self.bytes.saturating_add(blocks.saturating_mul(BLOCK_BYTES));
        }
    }

    /// Queues a directory, unless the paths that wait are too long together.
    fn enqueue(&mut self, path: PathBuf) {
        let length = path.as_os_str().len();
        if self.pending_bytes + length <= PATH_BYTES_MAX {
            self.pending_bytes += length;
            self.pending.push(path);
        }
    }
}
