//! Paths in the root of an image. The image chooses the files and links there, and root of the node creates mount
//! points. Each component is opened separately, and the kernel follows no link, so that no path leads out of the
//! directory.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid, chownat, fstat, mkdirat, openat, readlinkat};
use rustix::io::Errno;

use super::MOUNT_POINT_MODE;
use crate::confinement::user_namespaces::ranges::IdRange;

/// Maximum number of symbolic links in one path, as in the kernel.
const LINKS_MAX: usize = 40;
/// Maximum number of components of one path with those of its links: those of a path of 4096 bytes.
const COMPONENTS_MAX: usize = 2048;

/// Kind of file that a path has to name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File,
}

/// Root of a container, and the host ID of its root user.
pub(super) struct Root<'a> {
    pub directory: &'a OwnedFd,
    pub owner: Option<IdRange>,
}

impl Root<'_> {
    /// Opens the file at a path, and creates it with its directories if it is missing. Links stay in the root.
    ///
    /// # Errors
    /// `ELOOP` for too many links, and those of `openat(2)` and `mkdirat(2)`.
    pub(super) fn ensure(&self, path: &Path, kind: Kind) -> io::Result<OwnedFd> {
        let mut rest = components(path);
        let mut parents = vec![self.directory.try_clone()?];
        let (mut links, mut steps) = (0, 0);
        while let Some(name) = rest.pop_front() {
            steps += 1;
            if steps > COMPONENTS_MAX {
                return Err(Errno::NAMETOOLONG.into());
            }
            if name == ".." {
                if parents.len() > 1 {
                    parents.pop();
                }
                continue;
            }
            let parent = parents.last().unwrap_or(self.directory);
            let is_last = rest.is_empty();
            let kind = if is_last { kind } else { Kind::Directory };
            let opened = self.open_or_create(parent, &name, kind)?;
            match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
                FileType::Symlink => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(Errno::LOOP.into());
                    }
                    let target = readlinkat(&opened, "", Vec::new())?;
                    let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                    if target.is_absolute() {
                        parents.truncate(1);
                    }
                    let mut target = components(&target);
                    target.append(&mut rest);
                    rest = target;
                }
                FileType::Directory => parents.push(opened),
                _ if is_last => return Ok(opened),
                _ => return Err(Errno::NOTDIR.into()),
            }
        }
        parents.pop().ok_or_else(|| Errno::NOENT.into())
    }

    /// Opens a directory in the root directory, and creates it if it is missing.
    ///
    /// # Errors
    /// `ENOTDIR` for another kind of file, even for a link to a directory.
    pub(super) fn ensure_plain_directory(&self, name: &str) -> io::Result<OwnedFd> {
        let opened = self.open_or_create(self.directory, OsStr::new(name), Kind::Directory)?;
        match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
            FileType::Directory => Ok(opened),
            _ => Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                format!("the image has a file or link at /{name}, where a directory must be"),
            )),
        }
    }

    fn open_or_create(&self, parent: &OwnedFd, name: &OsStr, kind: Kind) -> io::Result<OwnedFd> {
        let open = || {
            openat(
                parent,
                name,
                OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            )
        };
        match open() {
            Err(Errno::NOENT) => {}
            opened => return Ok(opened?),
        }
        match kind {
            Kind::Directory => mkdirat(parent, name, Mode::from_raw_mode(MOUNT_POINT_MODE))?,
            Kind::File => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                drop(openat(parent.as_fd(), name, flags, Mode::from_raw_mode(0o644))?);
            }
        }
        if let Some(range) = self.owner {
            let (user, group) = (Uid::from_raw(range.first()), Gid::from_raw(range.first()));
            chownat(parent, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(open()?)
    }
}

/// Returns the names and `..` of a path.
fn components(path: &Path) -> VecDeque<OsString> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    parts.collect()
}
