//! Files below the log directory of the node, read-only (kubelet's `/logs/`).

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

#[cfg(test)]
mod tests;

/// Log directory of the node.
pub(super) const DIRECTORY: &str = "/var/log";
/// Maximum number of entries of a directory that are listed.
const ENTRIES_MAX: usize = 10_000;
/// Bytes of a file that are read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Content below the log directory.
#[derive(Debug)]
pub(super) enum NodeLog {
    /// Page with links to the entries of a directory.
    Listing(String),
    /// File with its size when it was opened.
    File(File, u64),
}

/// Opens a file or directory below `root`. Links that lead out of it are not followed.
///
/// # Errors
/// Errors of the kernel; `NotFound` for objects that are neither.
pub(super) fn open(root: &Path, path: &str) -> io::Result<NodeLog> {
    let root = rustix::fs::openat(CWD, root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let path = path.trim_matches('/');
    let path = if path.is_empty() { "." } else { path };
    // Without waiting for the writer of a pipe.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let opened = rustix::fs::openat2(&root, path, flags, Mode::empty(), resolve)?;
    let status = rustix::fs::fstat(&opened)?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => Ok(NodeLog::File(
            File::from(opened),
            u64::try_from(status.st_size).unwrap_or_default(),
        )),
        FileType::Directory => Ok(NodeLog::Listing(listing(Dir::new(opened)?)?)),
        _ => Err(Errno::NOENT.into()),
    }
}

/// Reads a file to the size that it had when it was opened, and passes it on in chunks. Ends early if the sink is
/// closed.
///
/// # Errors
/// Errors of the file.
pub(super) fn read(file: File, size: u64, mut sink: impl FnMut(Vec<u8>) -> bool) -> io::Result<()> {
    let mut left = file.take(size);
    loop {
        let mut chunk = vec![0; CHUNK_BYTES];
        let read = left.read(&mut chunk)?;
        chunk.truncate(read);
        if read == 0 || !sink(chunk) {
            return Ok(());
        }
    }
}

/// Returns the page with the entries of a directory in the order of their names.
fn listing(directory: Dir) -> io::Result<String> {
    let mut names = Vec::new();
    for entry in directory.take(ENTRIES_MAX) {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        match (name.as_str(), entry.file_type()) {
            ("." | "..", _) => {}
            (_, FileType::Directory) => names.push(format!("{name}/")),
            _ => names.push(name),
        }
    }
    names.sort();
    let mut page = String::from("<pre>\n");
    for name in names {
        page.push_str(&format!(
            "<a href=\"./{}\">{}</a>\n",
            percent_encode(&name),
            escape_html(&name)
        ));
    }
    page.push_str("</pre>\n");
    Ok(page)
}

/// Percent-encodes a name, except for characters that a path may contain.
fn percent_encode(name: &str) -> String {
    let mut link = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            link.push(char::from(byte));
        } else {
            link.push_str(&format!("%{byte:02X}"));
        }
    }
    link
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
