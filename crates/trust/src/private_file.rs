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

/// Replaces a file atomically, with mode 0600. After a failure the former file is unchanged.
///
/// # Errors
/// The error of the file system.
pub fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    let temporary = temporary_path(path);
    let written = write_synced(&temporary, contents).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The first error is the cause; a failed removal leaves only an unused file.
        fs::remove_file(&temporary).ok();
        return written;
    }
    // Without this the rename itself may be lost in a power failure.
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => File::open(directory)?.sync_all(),
        _ => Ok(()),
    }
}

fn write_synced(path: &Path, contents: &[u8]) -> io::Result<()> {
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
    file.sync_all()
}

/// Returns a path in the same directory, because `rename` is atomic only within a file system.
fn temporary_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests;
