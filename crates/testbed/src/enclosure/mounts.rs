//! The private file system of an enclosure.

use std::fs;
use std::io;
use std::path::Path;

use netlink::route::{Connection, LinkChange, RouteError};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};

use super::EnclosureError;

/// Directory with a tmpfs of the enclosure, which disappears with it.
pub const RUN_DIRECTORY: &str = "/run";

/// A set-up enclosure.
#[derive(Debug)]
pub struct EnclosureSetup {
    /// True if `/proc` shows the processes of the enclosure. A container with a masked `/proc` forbids that.
    pub has_own_proc: bool,
}

/// Sets up the inside of an enclosure. Separates its mounts from the host's, and mounts a `/proc` of its PID
/// namespace and an empty tmpfs on [`RUN_DIRECTORY`]. Sets the loopback link up.
///
/// # Errors
///
/// Returns [`EnclosureError`] if a mount or the loopback link fails.
pub fn set_up_enclosure() -> Result<EnclosureSetup, EnclosureError> {
    let failed = |target: &str, source: rustix::io::Errno| EnclosureError::Mount {
        target: target.to_owned(),
        source: source.into(),
    };
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|source| failed("/ as private", source))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let own_proc = mount("proc", "/proc", "proc", flags | MountFlags::NOEXEC, None);
    if let Err(source) = own_proc {
        tracing::debug!(%source, "/proc not mounted; using that of the host");
    }
    let resolver = linked_below_run("/etc/resolv.conf");
    mount("portolan", RUN_DIRECTORY, "tmpfs", flags, Some(c"mode=0755"))
        .map_err(|source| failed(RUN_DIRECTORY, source))?;
    if let Some((path, content)) = resolver {
        restore(&path, &content).map_err(|source| EnclosureError::Write { path, source })?;
    }
    loopback_up().map_err(|source| EnclosureError::Network { source })?;
    Ok(EnclosureSetup {
        has_own_proc: own_proc.is_ok(),
    })
}

/// Replaces the content of an existing file for this enclosure only, following links.
///
/// # Errors
///
/// Returns [`EnclosureError`] if the file cannot be covered.
pub fn cover_file(path: &str, content: &str) -> Result<(), EnclosureError> {
    let cover = format!("{RUN_DIRECTORY}/cover{}", path.replace('/', "-"));
    fs::write(&cover, content).map_err(|source| EnclosureError::Write {
        path: cover.clone(),
        source,
    })?;
    mount_bind(&cover, path).map_err(|source| EnclosureError::Mount {
        target: path.to_owned(),
        source: source.into(),
    })
}

fn loopback_up() -> Result<(), RouteError> {
    let mut connection = Connection::open()?;
    let loopback = connection.link_index(&"lo".parse()?)?;
    connection.change_link(loopback, &LinkChange::up())
}

/// Returns the target and content of `path`, if it is a link into the directory that is about to be covered.
fn linked_below_run(path: &str) -> Option<(String, Vec<u8>)> {
    let target = fs::canonicalize(path).ok()?;
    if !target.starts_with(RUN_DIRECTORY) {
        return None;
    }
    let content = fs::read(&target).ok()?;
    Some((target.to_str()?.to_owned(), content))
}

fn restore(path: &str, content: &[u8]) -> io::Result<()> {
    if let Some(directory) = Path::new(path).parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, content)
}
