//! Whiteouts: entries of a layer that hide files of lower layers (OCI image specification, "Whiteouts"), and their form
//! in overlay file systems.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, XattrFlags};
use rustix::io::Errno;

/// Prefix of the name of a whiteout.
const PREFIX: &[u8] = b".wh.";
/// Name of the whiteout that hides all files that lower layers have in a directory.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Prefix of other names that AUFS reserves.
const RESERVED_PREFIX: &[u8] = b".wh..wh.";

/// Names of the extended attributes in layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlayAttributes {
    /// `trusted.overlay.…`, which only the initial user namespace can write.
    Trusted,
    /// `user.overlay.…`, for overlay file systems with the option `userxattr`.
    User,
}

/// Meaning of a name in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name<'a> {
    Ordinary,
    /// The file with this name in lower layers is hidden.
    Whiteout(&'a [u8]),
    /// All files of the directory in lower layers are hidden.
    Opaque,
    /// Reserved, without meaning.
    Reserved,
    /// A whiteout of nothing, or of a directory's links to itself and its parent.
    Invalid,
}

impl<'a> Name<'a> {
    pub(super) fn of(name: &'a [u8]) -> Self {
        match name.strip_prefix(PREFIX) {
            None => Self::Ordinary,
            Some(_) if name == OPAQUE => Self::Opaque,
            Some(_) if name.starts_with(RESERVED_PREFIX) => Self::Reserved,
            Some(b"" | b"." | b"..") => Self::Invalid,
            Some(hidden) => Self::Whiteout(hidden),
        }
    }
}

impl OverlayAttributes {
    /// Tries which attributes this process can write in a directory of the store.
    pub(crate) fn probe(directory: &Path) -> io::Result<Self> {
        // A directory of its own, since several processes open the store at the same time.
        let name = format!("probe-{:016x}", fastrand::u64(..));
        let path = directory.join(&name);
        std::fs::create_dir(&path)?;
        let written = rustix::fs::setxattr(&path, Self::Trusted.opaque(), b"y", XattrFlags::empty());
        std::fs::remove_dir(&path)?;
        Ok(match written {
            Ok(()) => Self::Trusted,
            Err(_) => Self::User,
        })
    }

    fn opaque(self) -> &'static str {
        match self {
            Self::Trusted => "trusted.overlay.opaque",
            Self::User => "user.overlay.opaque",
        }
    }

    /// Makes a directory hide the files that lower layers have in it.
    pub(super) fn set_opaque(self, directory: impl AsFd) -> io::Result<()> {
        Ok(rustix::fs::fsetxattr(
            directory,
            self.opaque(),
            b"y",
            XattrFlags::empty(),
        )?)
    }
}

/// Creates a whiteout. Since Linux 5.8, character device 0/0 needs no privilege.
pub(super) fn create(parent: impl AsFd, name: &[u8]) -> Result<(), Errno> {
    rustix::fs::mknodat(parent, name, FileType::CharacterDevice, Mode::empty(), 0)
}

/// Returns `true` for the status of a whiteout.
pub(super) fn is_whiteout(status: &rustix::fs::Stat) -> bool {
    FileType::from_raw_mode(status.st_mode) == FileType::CharacterDevice && status.st_rdev == 0
}

#[cfg(test)]
mod tests;
