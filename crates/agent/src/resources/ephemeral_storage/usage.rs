//! Bytes that files occupy on disk, with bounded work. A container owns the files: links are not followed, and a tree
//! of any form is read without recursion.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, statat,
};
use rustix::io::Errno;

/// Files and directories of one Pod that one round counts.
pub(super) const ENTRIES_PER_ROUND: usize = 200_000;
/// Maximum number of files and directories of one Pod that are counted: those of a hundred rounds.
pub(super) const ENTRIES_MAX: usize = 100 * ENTRIES_PER_ROUND;
/// Maximum number of directories that wait to be read, and bytes of their paths.
const PENDING_MAX: usize = 200_000;
const PATH_BYTES_MAX: usize = 8 << 20;
/// Maximum number of inodes with several names that count once. The names of others count separately.
const LINKED_MAX: usize = 200_000;
/// Unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;
const OPEN: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Reason why the usage of a Pod is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnmeasuredReason {
    /// More than [`ENTRIES_MAX`] files and directories.
    Entries,
    /// Too many directories in one directory, or too long names of directories.
    Directories,
    /// A path that is longer than the kernel accepts.
    Depth,
}

impl Display for UnmeasuredReason {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entries => write!(formatter, "expected at most {ENTRIES_MAX} files and directories"),
            Self::Directories => write!(
                formatter,
                "expected at most {PENDING_MAX} directories beside each other, whose paths have at most \
                 {PATH_BYTES_MAX} bytes"
            ),
            Self::Depth => formatter.write_str("expected directories with paths below 4096 bytes"),
        }
    }
}

/// Entries that may still be counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Entries of this round.
    pub round: usize,
    /// Entries of all rounds.
    pub total: usize,
}

/// Walk through a directory tree, over as many rounds as it needs.
pub(super) struct Walk {
    top: OwnedFd,
    tree: Tree,
    /// Directory that is being read.
    current: Option<OpenDirectory>,
}

/// A directory whose entries are read.
struct OpenDirectory {
    descriptor: OwnedFd,
    entries: Dir,
    path: PathBuf,
}

impl Walk {
    /// Starts the walk through a directory. Returns `None` for a directory that is missing or cannot be read.
    pub(super) fn start(root: &Path) -> Option<Self> {
        Self::try_start(root).unwrap_or_else(|error| {
            tracing::debug!(path = %root.display(), %error, "usage of the disk not measured");
            None
        })
    }

    fn try_start(root: &Path) -> io::Result<Option<Self>> {
        let top = match openat(CWD, root, OPEN, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened?,
        };
        let tree = Tree {
            device: fstat(&top)?.st_dev,
            bytes: 0,
            linked: HashSet::new(),
            pending: Vec::new(),
            pending_bytes: 0,
        };
        let current = OpenDirectory {
            entries: Dir::read_from(&top)?,
            descriptor: top.try_clone()?,
            path: PathBuf::new(),
        };
        Ok(Some(Self {
            top,
            tree,
            current: Some(current),
        }))
    }

    /// Returns the bytes that are counted so far. Other file systems in the tree do not count.
    pub(super) fn bytes(&self) -> u64 {
        self.tree.bytes
    }

    /// Counts entries until the tree or the round ends. Returns true at the end of the tree.
    ///
    /// # Errors
    /// [`UnmeasuredReason`] for a tree beyond the bounds.
    pub(super) fn advance(&mut self, budget: &mut Budget) -> Result<bool, UnmeasuredReason> {
        loop {
            let next = match self.current.take() {
                None => self.next_directory()?,
                current => current,
            };
            let Some(mut directory) = next else {
                return Ok(true);
            };
            if !self.tree.read(&mut directory, budget)? {
                self.current = Some(directory);
                return Ok(false);
            }
        }
    }

    fn next_directory(&mut self) -> Result<Option<OpenDirectory>, UnmeasuredReason> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        while let Some(path) = self.tree.next_pending() {
            let descriptor = match openat2(&self.top, &path, OPEN, Mode::empty(), resolve) {
                Err(Errno::NAMETOOLONG) => return Err(UnmeasuredReason::Depth),
                // The container may have removed or moved it meanwhile.
                Err(_) => continue,
                Ok(descriptor) => descriptor,
            };
            if let Ok(entries) = Dir::read_from(&descriptor) {
                return Ok(Some(OpenDirectory {
                    descriptor,
                    entries,
                    path,
                }));
            }
        }
        Ok(None)
    }
}

/// Returns the bytes of a file on disk; 0 for one that is missing.
pub(super) fn bytes_of_file(path: &Path) -> u64 {
    let stat = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW);
    stat.map_or(0, |stat| occupied_bytes(&stat))
}

fn occupied_bytes(stat: &Stat) -> u64 {
    let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
    blocks.saturating_mul(BLOCK_BYTES)
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
    /// does not count. Returns false if the round ends before the directory.
    fn read(&mut self, directory: &mut OpenDirectory, budget: &mut Budget) -> Result<bool, UnmeasuredReason> {
        while budget.round > 0 {
            let Some(Ok(entry)) = directory.entries.read() else {
                return Ok(true);
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            budget.round -= 1;
            budget.total = budget.total.checked_sub(1).ok_or(UnmeasuredReason::Entries)?;
            // The container may have removed it meanwhile.
            let Ok(stat) = statat(&directory.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if stat.st_dev != self.device {
                continue;
            }
            let is_directory = FileType::from_raw_mode(stat.st_mode).is_dir();
            if is_directory {
                self.enqueue(directory.path.join(OsStr::from_bytes(name.to_bytes())))?;
            } else if stat.st_nlink > 1 && !self.is_first_name(stat.st_ino) {
                continue;
            }
            self.bytes = self.bytes.saturating_add(occupied_bytes(&stat));
        }
        Ok(false)
    }

    /// Returns true for the first name of an inode, and for each name of an inode beyond the bound.
    fn is_first_name(&mut self, inode: u64) -> bool {
        if self.linked.len() >= LINKED_MAX {
            return !self.linked.contains(&inode);
        }
        self.linked.insert(inode)
    }

    /// Queues a directory.
    fn enqueue(&mut self, path: PathBuf) -> Result<(), UnmeasuredReason> {
        let length = path.as_os_str().len();
        if self.pending.len() >= PENDING_MAX || self.pending_bytes + length > PATH_BYTES_MAX {
            return Err(UnmeasuredReason::Directories);
        }
        self.pending_bytes += length;
        self.pending.push(path);
        Ok(())
    }
}
