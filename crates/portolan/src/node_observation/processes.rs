//! Processes of this host, from `/proc`.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};

use super::gap::ReadFailure;

/// Maximum number of processes that are read: the default of `kernel.pid_max`.
const PROCESSES_MAX: usize = 32_768;
/// Maximum number of bytes of arguments of a process that are read.
const ARGUMENTS_BYTES_MAX: u64 = 64 << 10;

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Process {
    /// Process ID.
    pub id: u32,
    /// Name of the program, at most 15 bytes (`comm`).
    pub program: String,
    /// Arguments, with the program.
    pub arguments: Vec<String>,
    /// Inode of the network namespace; `None` if it is not permitted to read it.
    pub namespace: Option<u64>,
}

impl Process {
    /// Returns the file name of the program.
    pub(super) fn file_name(&self) -> &str {
        let path = self.arguments.first().map(String::as_str).unwrap_or_default();
        path.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the value of a flag `--name=value` or `--name value`; the last one counts.
    pub(super) fn flag(&self, name: &str) -> Option<&str> {
        let mut found = None;
        let mut arguments = self.arguments.iter().skip(1).peekable();
        while let Some(argument) = arguments.next() {
            let Some(rest) = argument
                .strip_prefix("--")
                .and_then(|text| text.strip_prefix(name))
            else {
                continue;
            };
            if let Some(value) = rest.strip_prefix('=') {
                found = Some(value);
            } else if rest.is_empty() {
                let next = arguments.peek().filter(|next| !next.starts_with('-'));
                found = Some(next.map_or("true", |next| next.as_str()));
            }
        }
        found
    }

    /// Opens a regular file of the process. Symbolic links are resolved below the root directory of the process: a Pod
    /// must not choose a file of the node.
    ///
    /// # Errors
    ///
    /// The error of the system call, or of [`regular`].
    pub(super) fn open(&self, inside: &str) -> io::Result<File> {
        let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(self.directory("root"), directory, Mode::empty())?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        regular(openat2(&root, inside, flags, Mode::empty(), resolve)?)
    }

    /// Returns a path below the directory of the process in `/proc`.
    pub(super) fn directory(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.id))
    }
}

/// Opens a regular file of the node.
///
/// # Errors
///
/// The error of the system call, or of [`regular`].
pub(super) fn open_regular(path: &Path) -> io::Result<File> {
    regular(open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens a located file for reading if it is a regular one. The arguments of processes name files, and any process can
/// have any arguments. To open a FIFO can take forever, and to open a device can change the host.
///
/// # Errors
///
/// `InvalidInput` for other files, or the error of the system call.
fn regular(located: impl AsFd + AsRawFd) -> io::Result<File> {
    let mode = fstat(&located)?.st_mode;
    if FileType::from_raw_mode(mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let path = format!("/proc/self/fd/{}", located.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?.into())
}

/// Returns all processes, without threads of the kernel.
///
/// # Errors
///
/// A [`ReadFailure`] if `/proc` cannot be read.
pub(super) fn read_all() -> Result<Vec<Process>, ReadFailure> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten().take(PROCESSES_MAX) {
        let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
        // A process may end while it is read.
        processes.extend(id.and_then(|id| read(id, &entry.path())));
    }
    Ok(processes)
}

/// Returns the inode of the network namespace of this thread.
///
/// # Errors
///
/// A [`ReadFailure`] if `/proc` cannot be read.
pub(super) fn own_namespace() -> Result<u64, ReadFailure> {
    let path = Path::new("/proc/thread-self/ns/net");
    let link = fs::read_link(path)?;
    namespace_inode(&link.to_string_lossy())
        .ok_or_else(|| ReadFailure::Other(format!("{} has an unknown form", path.display())))
}

fn read(id: u32, directory: &Path) -> Option<Process> {
    let arguments = parse_arguments(&read_bounded(&directory.join("cmdline")).ok()?);
    if arguments.is_empty() {
        return None;
    }
    let program = read_bounded(&directory.join("comm")).ok()?;
    let namespace = fs::read_link(directory.join("ns/net")).ok();
    Some(Process {
        id,
        program: String::from_utf8_lossy(program.trim_ascii_end()).into_owned(),
        arguments,
        namespace: namespace.and_then(|link| namespace_inode(&link.to_string_lossy())),
    })
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path)?;
    file.take(ARGUMENTS_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Splits arguments at their zeros.
fn parse_arguments(bytes: &[u8]) -> Vec<String> {
    let text = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if text.is_empty() {
        return Vec::new();
    }
    let parts = text.split(|byte| *byte == 0);
    parts
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect()
}

/// Parses `net:[4026531840]`.
fn namespace_inode(link: &str) -> Option<u64> {
    let inode = link.strip_prefix("net:[")?.strip_suffix(']')?;
    inode.parse().ok()
}

#[cfg(test)]
mod tests;
