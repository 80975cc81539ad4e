//! Files with secrets: only the owner may read them, and a reader never sees half of one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Makes a directory that only the owner may enter, and the directories above it.
///
/// # Errors
/// What the file system says.
pub fn make_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file with mode 0600 in one step: it is there whole, as it was before, or not at all.
///
/// # Errors
/// What the file system says.
pub fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    let beside = beside(path);
    let written = write_synced(&beside, contents).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // What was being written is of no use; the first error says more than one about removing it.
        fs::remove_file(&beside).ok();
        return written;
    }
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => File::open(directory)?.sync_all(),
        _ => Ok(()),
    }
}

fn write_synced(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(contents)?;
    file.sync_all()
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    PathBuf::from(name)
}
