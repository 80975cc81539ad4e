//! Directory by its descriptor. Operations on names in it follow no symbolic link and never leave it.
//!
//! A container may have written to a volume (through `hostPath`, or under an agent that left such volumes writable).
//! The agent is root on the node. A symbolic link of a container must not choose the place where the agent writes or
//! deletes.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::volumes::file_owners::Owners;

/// Maximum depth of directories for reading or deletion. Each level holds a descriptor.
const DEPTH_MAX: usize = 64;
/// Follow no symbolic link and stay below the directory.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);
const READ_DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);

/// Open directory.
#[derive(Debug)]
pub struct Directory {
    descriptor: OwnedFd,
}

impl Directory {
    /// Opens the directory at `path`, which must not be a symbolic link.
    ///
    /// # Errors
    /// `ENOTDIR` or `ELOOP` for a symbolic link, and those of `open(2)`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let descriptor = rustix::fs::open(path, READ_DIRECTORY, Mode::empty())?;
        Ok(Self { descriptor })
    }

    /// Opens a directory for reading and writing from a descriptor, which may have `O_PATH`.
    ///
    /// # Errors
    /// `ENOTDIR`, and those of `openat(2)`.
    pub fn reopen(directory: impl AsFd) -> io::Result<Self> {
        let descriptor = rustix::fs::openat(directory, ".", READ_DIRECTORY, Mode::empty())?;
        Ok(Self { descriptor })
    }

    /// Opens a directory below this one.
    ///
    /// # Errors
    /// `ELOOP` if a part of the path is a symbolic link, and those of `openat2(2)`.
    pub fn open_directory(&self, path: &Path) -> io::Result<Self> {
        let opened = rustix::fs::openat2(&self.descriptor, path, READ_DIRECTORY, Mode::empty(), BENEATH);
        Ok(Self { descriptor: opened? })
    }

    /// Creates a directory and opens it.
    ///
    /// # Errors
    /// `EEXIST`, and those of `mkdirat(2)`.
    pub fn create_directory(&self, name: &Path, mode: u32) -> io::Result<Self> {
        rustix::fs::mkdirat(&self.descriptor, name, Mode::from_raw_mode(0o700))?;
        let created = self.open_directory(name)?;
        created.set_mode(mode)?;
        Ok(created)
    }

    /// Opens the directory at a relative path, and creates missing parts of it.
    ///
    /// # Errors
    /// `EINVAL` for a path with parts other than names; `ELOOP` or `ENOTDIR` for a symbolic link.
    pub fn ensure_directory(&self, path: &Path, mode: u32) -> io::Result<Self> {
        let mut directory = self.clone_descriptor()?;
        for part in path.components() {
            let Component::Normal(name) = part else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            let name = Path::new(name);
            directory = match directory.create_directory(name, mode) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    directory.open_directory(name)?
                }
                created => created?,
            };
        }
        Ok(directory)
    }

    /// Creates a file with its content, mode and owners.
    ///
    /// # Errors
    /// `EEXIST` if the name exists, even as a symbolic link.
    pub fn write_new(&self, name: &Path, content: &[u8], mode: u32, owners: Owners) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let private = Mode::from_raw_mode(0o600);
        let opened = rustix::fs::openat2(&self.descriptor, name, flags, private, BENEATH)?;
        let mut file = fs::File::from(opened);
        file.write_all(content)?;
        owners.apply(&file)?;
        Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?)
    }

    /// Creates an empty file unless it exists.
    ///
    /// # Errors
    /// `ELOOP` for a symbolic link.
    pub fn ensure_file(&self, name: &Path) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mode = Mode::from_raw_mode(0o644);
        rustix::fs::openat2(&self.descriptor, name, flags, mode, BENEATH)?;
        Ok(())
    }

    /// Reads a regular file of at most `bytes_max`.
    ///
    /// # Errors
    /// `ELOOP` for a symbolic link, `InvalidData` for another kind of file or a larger one.
    pub fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        // Opening a named pipe must not block.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let opened = rustix::fs::openat2(&self.descriptor, path, flags, Mode::empty(), BENEATH)?;
        let file = fs::File::from(opened);
        if !file.metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut content = Vec::new();
        file.take(bytes_max as u64 + 1).read_to_end(&mut content)?;
        if content.len() > bytes_max {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(content)
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// `EINVAL` for another kind of file.
    pub fn read_link(&self, name: &Path) -> io::Result<PathBuf> {
        let target = rustix::fs::readlinkat(&self.descriptor, name, Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// Creates a symbolic link.
    ///
    /// # Errors
    /// `EEXIST` if the name exists.
    pub fn link(&self, target: &Path, name: &Path) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.descriptor, name)?)
    }

    /// Renames within the directory. Neither name is followed as a symbolic link.
    ///
    /// # Errors
    /// Errors of `renameat(2)`.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(rustix::fs::renameat(
            &self.descriptor,
            from,
            &self.descriptor,
            to,
        )?)
    }

    /// Returns the names in the directory with their types.
    ///
    /// # Errors
    /// Errors of `getdents(2)`.
    pub fn entries(&self) -> io::Result<Vec<(PathBuf, FileType)>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.descriptor)? {
            let entry = entry?;
            let name = PathBuf::from(OsString::from_vec(entry.file_name().to_bytes().to_vec()));
            if name == Path::new(".") || name == Path::new("..") {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let status = rustix::fs::statat(&self.descriptor, &name, AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(status.st_mode)
                }
                kind => kind,
            };
            entries.push((name, kind));
        }
        Ok(entries)
    }

    /// Removes a name with everything below it. A symbolic link is removed itself. Succeeds if the name does not exist.
    ///
    /// # Errors
    /// `InvalidData` for a tree that is deeper than the agent creates, and those of `unlinkat(2)`.
    pub fn remove(&self, name: &Path) -> io::Result<()> {
        self.remove_to_depth(name, DEPTH_MAX)
    }

    fn remove_to_depth(&self, name: &Path, depth: usize) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(errno) => return Err(errno.into()),
        }
        if depth == 0 {
            return Err(too_deep());
        }
        let inner = self.open_directory(name)?;
        for (entry, _) in inner.entries()? {
            inner.remove_to_depth(&entry, depth - 1)?;
        }
        match rustix::fs::unlinkat(&self.descriptor, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns the paths of all non-directories below the directory.
    ///
    /// # Errors
    /// `InvalidData` for a tree that is deeper than the agent creates.
    pub fn files(&self) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        self.collect(Path::new(""), DEPTH_MAX, &mut found)?;
        Ok(found)
    }

    fn collect(&self, below: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
        for (name, kind) in self.entries()? {
            let path = below.join(&name);
            if kind != FileType::Directory {
                found.push(path);
            } else if depth == 0 {
                return Err(too_deep());
            } else {
                self.open_directory(&name)?.collect(&path, depth - 1, found)?;
            }
        }
        Ok(())
    }

    /// Sets the mode of the directory.
    ///
    /// # Errors
    /// Errors of `fchmod(2)`.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.descriptor, Mode::from_raw_mode(mode))?)
    }

    /// Sets the owners of the directory.
    ///
    /// # Errors
    /// Errors of [`Owners::apply`].
    pub fn set_owners(&self, owners: Owners) -> io::Result<()> {
        owners.apply(&self.descriptor)
    }

    fn clone_descriptor(&self) -> io::Result<Self> {
        let descriptor = self.descriptor.try_clone()?;
        Ok(Self { descriptor })
    }
}

fn too_deep() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("more than {DEPTH_MAX} levels of directories"),
    )
}
