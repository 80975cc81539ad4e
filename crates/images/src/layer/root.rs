//! Root of a layer by its descriptor. No operation follows a symbolic link or leaves the root.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::error::EntryError;
use super::limits::{DEPTH_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX};
use super::whiteout::{self, OverlayAttributes};

/// Follow no symbolic link and stay below the directory.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);
/// Directory that is opened only to resolve names below it.
const PATH_DIRECTORY: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);
/// Directory that is opened to read its names and attributes.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);
/// Mode of directories that have no entry of their own.
const IMPLICIT_MODE: u32 = 0o755;

/// Names of a path below the root, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryPath {
    /// The names, separated by one slash each.
    text: Vec<u8>,
    last: usize,
}

/// Failure of an operation below the root.
#[derive(Debug)]
pub(super) enum RootError {
    Rejected(EntryError),
    System(io::Error),
}

/// Open root of a layer.
pub(super) struct Root {
    descriptor: OwnedFd,
    attributes: OverlayAttributes,
}

impl From<Errno> for RootError {
    fn from(errno: Errno) -> Self {
        Self::System(errno.into())
    }
}

impl From<io::Error> for RootError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<EntryError> for RootError {
    fn from(error: EntryError) -> Self {
        Self::Rejected(error)
    }
}

impl EntryPath {
    /// Checks the path of an entry. A slash at the start counts as the root of the layer.
    pub(super) fn parse(path: &[u8]) -> Result<Self, EntryError> {
        if path.len() > PATH_BYTES_MAX {
            return Err(EntryError::PathBytes);
        }
        if path.contains(&0) {
            return Err(EntryError::ZeroByte);
        }
        let names = path.split(|byte| *byte == b'/');
        let names: Vec<&[u8]> = names.filter(|name| !matches!(*name, b"" | b".")).collect();
        if names.contains(&&b".."[..]) {
            return Err(EntryError::Parent);
        }
        if names.iter().any(|name| name.len() > NAME_BYTES_MAX) {
            return Err(EntryError::PathBytes);
        }
        if names.len() > DEPTH_MAX {
            return Err(EntryError::Depth);
        }
        let last_bytes = names.last().map_or(0, |name| name.len());
        let text = names.join(&b'/');
        Ok(Self {
            last: text.len() - last_bytes,
            text,
        })
    }

    pub(super) fn is_root(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the last name.
    pub(super) fn name(&self) -> &[u8] {
        &self.text[self.last..]
    }

    /// Returns the path without the last name.
    pub(super) fn parent(&self) -> &[u8] {
        self.text[..self.last].strip_suffix(b"/").unwrap_or_default()
    }

    /// Returns `true` if `other` is a parent of this path, at any level.
    pub(super) fn is_below(&self, other: &Self) -> bool {
        let rest = self.text.strip_prefix(other.text.as_slice());
        rest.is_some_and(|rest| rest.starts_with(b"/"))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.text
    }
}

impl Root {
    /// Opens an empty directory as root.
    pub(super) fn open(directory: &Path, attributes: OverlayAttributes) -> io::Result<Self> {
        let descriptor = rustix::fs::open(directory, READ, Mode::empty())?;
        Ok(Self {
            descriptor,
            attributes,
        })
    }

    /// Opens a directory below the root, and creates those that are missing.
    pub(super) fn ensure_directory(&self, path: &[u8]) -> Result<OwnedFd, RootError> {
        match self.reach(path) {
            Ok(directory) => return Ok(directory),
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => return Err(reject_link(errno)),
        }
        let mut directory = self.reach(b"")?;
        for name in path.split(|byte| *byte == b'/') {
            directory = self.ensure_name(&directory, name)?;
        }
        Ok(directory)
    }

    /// Opens an existing directory below the root, for access to names in it.
    pub(super) fn reach(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        self.open_below(path, PATH_DIRECTORY)
    }

    /// Opens an existing directory below the root, to change its attributes.
    pub(super) fn open_directory(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        self.open_below(path, READ)
    }

    fn open_below(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        rustix::fs::openat2(&self.descriptor, path, flags, Mode::empty(), BENEATH)
    }

    /// Opens or creates a directory that has no entry of its own yet.
    fn ensure_name(&self, parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd, RootError> {
        let mode = Mode::from_raw_mode(IMPLICIT_MODE);
        match rustix::fs::mkdirat(parent, name, mode) {
            Ok(()) => {
                // The mask of the process may have removed bits.
                rustix::fs::chmodat(parent, name, mode, AtFlags::empty())?;
            }
            Err(Errno::EXIST) => {
                let existing = status(parent, name)?;
                if whiteout::is_whiteout(&existing) {
                    self.replace_whiteout(parent, name, mode)?;
                }
            }
            Err(errno) => return Err(errno.into()),
        }
        rustix::fs::openat2(parent, name, PATH_DIRECTORY, Mode::empty(), BENEATH).map_err(reject_link)
    }

    /// Creates a directory in place of a whiteout. The directory still hides the lower one.
    pub(super) fn replace_whiteout(
        &self,
        parent: &OwnedFd,
        name: &[u8],
        mode: Mode,
    ) -> Result<(), RootError> {
        rustix::fs::unlinkat(parent, name, AtFlags::empty())?;
        rustix::fs::mkdirat(parent, name, mode)?;
        let created = rustix::fs::openat2(parent, name, READ, Mode::empty(), BENEATH)?;
        Ok(self.attributes.set_opaque(&created)?)
    }

    /// Makes a directory hide the files that lower layers have in it.
    pub(super) fn set_opaque(&self, directory: impl AsFd) -> io::Result<()> {
        self.attributes.set_opaque(directory)
    }
}

/// Creates a file that did not exist.
pub(super) fn create_file(parent: &OwnedFd, name: &[u8]) -> Result<std::fs::File, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let created = rustix::fs::openat2(parent, name, flags, Mode::from_raw_mode(0o600), BENEATH)?;
    Ok(created.into())
}

/// Opens a directory in another one, to change its attributes.
pub(super) fn open_name(parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    rustix::fs::openat2(parent, name, READ, Mode::empty(), BENEATH)
}

/// Returns the status of a name. A symbolic link is not followed.
pub(super) fn status(parent: impl AsFd, name: &[u8]) -> Result<Stat, Errno> {
    rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Removes a name with everything below it. A symbolic link is removed itself.
pub(super) fn remove(parent: &OwnedFd, name: &[u8]) -> Result<(), RootError> {
    remove_to_depth(parent, name, DEPTH_MAX)
}

fn remove_to_depth(parent: &OwnedFd, name: &[u8], depth: usize) -> Result<(), RootError> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => {}
        removed => return Ok(removed?),
    }
    if depth == 0 {
        return Err(EntryError::Depth.into());
    }
    let directory = open_name(parent, name)?;
    // Names are not collected: a layer can have a million in one directory.
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let inner = entry.file_name().to_bytes();
        if !matches!(inner, b"." | b"..") {
            remove_to_depth(&directory, inner, depth - 1)?;
        }
    }
    Ok(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}

/// Returns `true` for the status of a directory.
pub(super) fn is_directory(status: &Stat) -> bool {
    FileType::from_raw_mode(status.st_mode) == FileType::Directory
}

fn reject_link(errno: Errno) -> RootError {
    match errno {
        Errno::LOOP | Errno::NOTDIR | Errno::XDEV => EntryError::ParentNotDirectory.into(),
        errno => errno.into(),
    }
}
