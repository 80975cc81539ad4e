//! Files with secrets: only their owner reads them, and a reader never gets a partially written one.
//!
//! ```no_run
//! use std::path::Path;
//!
//! # fn main() -> std::io::Result<()> {
//! let directory = Path::new("/var/lib/portolan/pki");
//! trust::private_file::create_directory(directory)?;
//! trust::private_file::write(&directory.join("ca.key"), b"-----BEGIN PRIVATE KEY-----")?;
//! # Ok(())
//! # }
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Creates a directory with mode 0700, and its missing parents.
///
/// # Errors
/// The error of the file system.
pub fn create_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Replaces a file atomically, with mode 0600. After a failure the former file is unchanged. On success the file is on
/// the disk.
///
/// # Errors
/// The error of the file system.
pub fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    replace(path, contents, File::sync_all)?;
    // Without this the rename itself may be lost in a power failure.
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => File::open(directory)?.sync_all(),
        _ => Ok(()),
    }
}

/// Replaces a file like [`write()`], but does not wait for the disk. A power failure can leave the former file, no file, or
/// a damaged one. Use this only for contents that the reader checks and can create again.
///
/// # Errors
/// The error of the file system.
pub fn write_unsynced(path: &Path, contents: &[u8]) -> io::Result<()> {
    replace(path, contents, |_| Ok(()))
}

/// Replaces a file by a new file. Calls `finish` with the new file before the rename.
fn replace(path: &Path, contents: &[u8], finish: fn(&File) -> io::Result<()>) -> io::Result<()> {
    let temporary = temporary_path(path);
    let written = create(&temporary, contents)
        .and_then(|file| finish(&file))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The first error is the cause; a failed removal leaves only an unused file.
        fs::remove_file(&temporary).ok();
    }
    written
}

fn create(path: &Path, contents: &[u8]) -> io::Result<File> {
    // A file or link of another user at this path would get the contents, or keep its mode.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(contents)?;
    Ok(file)
}

/// Returns a path in the same directory, because `rename` is atomic only within a file system.
fn temporary_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests;
