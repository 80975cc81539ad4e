//! Writes the entries of a layer below its root.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::{AtFlags, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::archive::{Archive, Entry, EntryKind};
use super::error::{EntryError, LayerError};
use super::limits::{DIRECTORY_PATHS_BYTES_MAX, Limit};
use super::pax::ModificationTime;
use super::root::{self, EntryPath, Root, RootError};
use super::whiteout::{self, Name};
use crate::settings::DevicePolicy;

/// Bytes of the buffer between archive and file.
const COPY_BUFFER_BYTES: usize = 128 << 10;
/// Extended attribute with the capabilities of a program.
const CAPABILITY_ATTRIBUTE: &[u8] = b"security.capability";
const USER_ATTRIBUTES: &[u8] = b"user.";
/// Attributes that have a meaning for the overlay file system itself.
const OVERLAY_ATTRIBUTES: &[u8] = b"user.overlay.";

/// State of a layer that is unpacked.
pub(super) struct Unpacker {
    root: Root,
    devices: DevicePolicy,
    /// Attributes of directories, which are set at the end: entries below change the times, and need write access.
    directories: BTreeMap<EntryPath, (u32, ModificationTime)>,
    directory_paths_bytes: usize,
    /// Directory of the entry before, which most entries share.
    last_parent: Option<(Vec<u8>, Rc<OwnedFd>)>,
    buffer: Vec<u8>,
    pub(super) size_bytes: u64,
    is_privileged: bool,
}

impl Unpacker {
    pub(super) fn new(root: Root, devices: DevicePolicy) -> Self {
        Self {
            root,
            devices,
            directories: BTreeMap::new(),
            directory_paths_bytes: 0,
            last_parent: None,
            buffer: vec![0; COPY_BUFFER_BYTES],
            size_bytes: 0,
            is_privileged: rustix::process::geteuid().is_root(),
        }
    }

    /// Writes one entry. The archive is at its content.
    pub(super) fn unpack<R: Read>(
        &mut self,
        entry: &Entry,
        archive: &mut Archive<R>,
    ) -> Result<(), LayerError> {
        let failed = |error| match error {
            RootError::Rejected(reason) => LayerError::Entry {
                path: String::from_utf8_lossy(&entry.path).into_owned(),
                reason,
            },
            RootError::System(source) => LayerError::Write {
                path: String::from_utf8_lossy(&entry.path).into_owned(),
                source,
            },
        };
        let path = EntryPath::parse(&entry.path).map_err(|reason| failed(reason.into()))?;
        if path.is_root() {
            return match entry.kind {
                EntryKind::Directory => self.remember_directory(path, entry),
                _ => Err(failed(EntryError::Root.into())),
            };
        }
        if path
            .parent()
            .split(|byte| *byte == b'/')
            .any(|name| Name::of(name) != Name::Ordinary)
        {
            return Err(failed(EntryError::Whiteout.into()));
        }
        let parent = self.parent(&path).map_err(failed)?;
        match Name::of(path.name()) {
            Name::Ordinary => {}
            Name::Reserved => return Ok(()),
            Name::Invalid => return Err(failed(EntryError::Whiteout.into())),
            Name::Opaque => return self.hide_lower(&path).map_err(failed),
            Name::Whiteout(hidden) => return self.white_out(&parent, hidden).map_err(failed),
        }
        match entry.kind {
            EntryKind::Directory => {
                self.create_directory(&parent, &path, entry).map_err(failed)?;
                self.remember_directory(path, entry)
            }
            EntryKind::File => {
                let file = self.create(&parent, &path, root::create_file).map_err(failed)?;
                self.copy_content(&file, entry, archive)?;
                self.set_file_attributes(&file, entry).map_err(failed)
            }
            _ => self.create_other(&parent, &path, entry).map_err(failed),
        }
    }

    /// Sets modes and times of the directories, those below first.
    pub(super) fn finish(self) -> Result<(), LayerError> {
        for (path, (mode, modified)) in self.directories.iter().rev() {
            let directory = match self.root.open_directory(path.bytes()) {
                // A later entry has replaced the directory.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                opened => opened,
            };
            let set = || {
                let directory = directory?;
                rustix::fs::futimens(&directory, &timestamps(*modified))?;
                rustix::fs::fchmod(&directory, Mode::from_raw_mode(*mode))
            };
            set().map_err(|errno| LayerError::Write {
                path: String::from_utf8_lossy(path.bytes()).into_owned(),
                source: errno.into(),
            })?;
        }
        Ok(())
    }

    /// Returns the directory of an entry.
    fn parent(&mut self, path: &EntryPath) -> Result<Rc<OwnedFd>, RootError> {
        if let Some((last, directory)) = &self.last_parent
            && last == path.parent()
        {
            return Ok(Rc::clone(directory));
        }
        let directory = Rc::new(self.root.ensure_directory(path.parent())?);
        self.last_parent = Some((path.parent().to_vec(), Rc::clone(&directory)));
        Ok(directory)
    }

    /// Records mode and time of a directory. Paths are bounded together.
    fn remember_directory(&mut self, path: EntryPath, entry: &Entry) -> Result<(), LayerError> {
        self.directory_paths_bytes += path.bytes().len();
        if self.directory_paths_bytes > DIRECTORY_PATHS_BYTES_MAX {
            return Err(Limit::DirectoryPathsBytes.into());
        }
        if path.is_root() {
            let set = self.root.open_directory(b"").map_err(RootError::from);
            let set = set.and_then(|directory| self.set_owner_and_attributes(&directory, entry));
            if let Err(RootError::System(source)) = set {
                let path = "/".to_owned();
                return Err(LayerError::Write { path, source });
            }
        }
        self.directories.insert(path, (entry.mode, entry.modified));
        Ok(())
    }

    fn create_directory(
        &mut self,
        parent: &OwnedFd,
        path: &EntryPath,
        entry: &Entry,
    ) -> Result<(), RootError> {
        let private = Mode::from_raw_mode(0o700);
        let name = path.name();
        match rustix::fs::mkdirat(parent, name, private) {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                let existing = root::status(parent, name)?;
                if whiteout::is_whiteout(&existing) {
                    self.root.replace_whiteout(parent, name, private)?;
                } else if !root::is_directory(&existing) {
                    self.remove(parent, path)?;
                    rustix::fs::mkdirat(parent, name, private)?;
                }
            }
            Err(errno) => return Err(errno.into()),
        }
        let directory = root::open_name(parent, name)?;
        self.set_owner_and_attributes(&directory, entry)
    }

    /// Creates a name by `create`. It replaces a file or directory of an earlier entry.
    fn create<T>(
        &mut self,
        parent: &OwnedFd,
        path: &EntryPath,
        create: impl Fn(&OwnedFd, &[u8]) -> Result<T, Errno>,
    ) -> Result<T, RootError> {
        match create(parent, path.name()) {
            Err(Errno::EXIST) => {
                self.remove(parent, path)?;
                Ok(create(parent, path.name())?)
            }
            created => Ok(created?),
        }
    }

    fn remove(&mut self, parent: &OwnedFd, path: &EntryPath) -> Result<(), RootError> {
        // The kept descriptor may be the one of a directory below.
        self.last_parent = None;
        root::remove(parent, path.name())
    }

    fn copy_content<R: Read>(
        &mut self,
        mut file: &File,
        entry: &Entry,
        archive: &mut Archive<R>,
    ) -> Result<(), LayerError> {
        loop {
            let read = match archive.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(LayerError::of_read(error)),
            };
            file.write_all(&self.buffer[..read])
                .map_err(|source| LayerError::Write {
                    path: String::from_utf8_lossy(&entry.path).into_owned(),
                    source,
                })?;
            self.size_bytes += read as u64;
        }
        Ok(())
    }

    /// Sets owner, extended attributes, mode and time, in this order: a new owner removes capabilities and set-user-ID.
    fn set_file_attributes(&self, file: &File, entry: &Entry) -> Result<(), RootError> {
        self.set_owner_and_attributes(file, entry)?;
        rustix::fs::fchmod(file, Mode::from_raw_mode(entry.mode))?;
        Ok(rustix::fs::futimens(file, &timestamps(entry.modified))?)
    }

    fn set_owner_and_attributes(&self, file: impl AsFd, entry: &Entry) -> Result<(), RootError> {
        if self.is_privileged {
            let (user, group) = (Uid::from_raw(entry.user), Gid::from_raw(entry.group));
            rustix::fs::fchown(&file, Some(user), Some(group))?;
        }
        for (name, value) in entry.attributes.iter().filter(|(name, _)| self.is_kept(name)) {
            match rustix::fs::fsetxattr(&file, name.as_slice(), value, XattrFlags::empty()) {
                // The file system has no such attributes.
                Ok(()) | Err(Errno::OPNOTSUPP) => {}
                Err(Errno::INVAL | Errno::RANGE | Errno::TOOBIG) => return Err(EntryError::Attributes.into()),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Attributes of users and capabilities are kept. Others have a meaning for the host, or for the overlay.
    fn is_kept(&self, name: &[u8]) -> bool {
        let is_user = name.starts_with(USER_ATTRIBUTES) && !name.starts_with(OVERLAY_ATTRIBUTES);
        is_user || (name == CAPABILITY_ATTRIBUTE && self.is_privileged)
    }

    /// Creates a link, a named pipe or a device.
    fn create_other(&mut self, parent: &OwnedFd, path: &EntryPath, entry: &Entry) -> Result<(), RootError> {
        let (kind, device) = match entry.kind {
            EntryKind::HardLink => return self.create_hard_link(parent, path, entry),
            EntryKind::SymbolicLink => {
                if entry.link.is_empty() {
                    return Err(EntryError::NoTarget.into());
                }
                if entry.link.contains(&0) {
                    return Err(EntryError::ZeroByte.into());
                }
                self.create(parent, path, |parent, name| {
                    rustix::fs::symlinkat(entry.link.as_slice(), parent, name)
                })?;
                return self.set_name_attributes(parent, path, entry);
            }
            EntryKind::NamedPipe => (FileType::Fifo, 0),
            EntryKind::CharacterDevice { major, minor } => {
                (FileType::CharacterDevice, rustix::fs::makedev(major, minor))
            }
            EntryKind::BlockDevice { major, minor } => {
                (FileType::BlockDevice, rustix::fs::makedev(major, minor))
            }
            EntryKind::File | EntryKind::Directory => return Ok(()),
        };
        // Device 0/0 would be a whiteout.
        if kind != FileType::Fifo && (self.devices == DevicePolicy::Skip || device == 0) {
            return Ok(());
        }
        let mode = Mode::from_raw_mode(entry.mode);
        self.create(parent, path, |parent, name| {
            rustix::fs::mknodat(parent, name, kind, mode, device)
        })?;
        rustix::fs::chmodat(parent, path.name(), mode, AtFlags::empty())?;
        self.set_name_attributes(parent, path, entry)
    }

    fn create_hard_link(
        &mut self,
        parent: &OwnedFd,
        path: &EntryPath,
        entry: &Entry,
    ) -> Result<(), RootError> {
        let target = EntryPath::parse(&entry.link)?;
        if target.is_root() {
            return Err(EntryError::HardLink.into());
        }
        let target_parent = match self.root.reach(target.parent()) {
            Err(Errno::NOENT) => return Err(EntryError::HardLink.into()),
            Err(Errno::LOOP | Errno::NOTDIR) => return Err(EntryError::ParentNotDirectory.into()),
            reached => reached?,
        };
        let file = match root::status(&target_parent, target.name()) {
            Err(Errno::NOENT) => return Err(EntryError::HardLink.into()),
            file => file?,
        };
        if root::is_directory(&file) || whiteout::is_whiteout(&file) {
            return Err(EntryError::HardLink.into());
        }
        match root::status(parent, path.name()) {
            // Both names are one file already; `unlink` would remove its last name.
            Ok(existing) if (existing.st_dev, existing.st_ino) == (file.st_dev, file.st_ino) => return Ok(()),
            // The directory that the link replaces may hold the target.
            Ok(existing) if root::is_directory(&existing) && target.is_below(path) => {
                return Err(EntryError::HardLink.into());
            }
            Ok(_) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.create(parent, path, |parent, name| {
            rustix::fs::linkat(&target_parent, target.name(), parent, name, AtFlags::empty())
        })
    }

    /// Sets owner and time of a name that cannot be opened: a symbolic link, a pipe or a device.
    fn set_name_attributes(
        &self,
        parent: &OwnedFd,
        path: &EntryPath,
        entry: &Entry,
    ) -> Result<(), RootError> {
        let name = path.name();
        if self.is_privileged {
            let (user, group) = (Uid::from_raw(entry.user), Gid::from_raw(entry.group));
            rustix::fs::chownat(parent, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        let times = timestamps(entry.modified);
        Ok(rustix::fs::utimensat(
            parent,
            name,
            &times,
            AtFlags::SYMLINK_NOFOLLOW,
        )?)
    }

    /// Hides the content of lower layers in the directory of the entry.
    fn hide_lower(&mut self, path: &EntryPath) -> Result<(), RootError> {
        let directory = self.root.open_directory(path.parent())?;
        Ok(self.root.set_opaque(&directory)?)
    }

    /// Hides a file of lower layers. Files of this layer stay: a directory with this name hides the lower one.
    fn white_out(&mut self, parent: &OwnedFd, hidden: &[u8]) -> Result<(), RootError> {
        match whiteout::create(parent, hidden) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => {
                if root::is_directory(&root::status(parent, hidden)?) {
                    let directory = root::open_name(parent, hidden)?;
                    self.root.set_opaque(&directory)?;
                }
                Ok(())
            }
            Err(errno) => Err(errno.into()),
        }
    }
}

fn timestamps(modified: ModificationTime) -> Timestamps {
    let time = Timespec {
        tv_sec: modified.seconds,
        tv_nsec: i64::from(modified.nanoseconds),
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}
