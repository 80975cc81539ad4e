//! Files that survive a power failure, and numbers of the file system.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use super::StoreError;

/// Writes a file under a temporary name, waits for the disk, and gives the file its name.
pub(super) fn write_durably(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    let temporary = path.with_extension(format!("{:016x}.new", fastrand::u64(..)));
    let write = || {
        let mut file = File::create_new(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        sync_parent(path)
    };
    write().map_err(|error| {
        if let Err(error) = fs::remove_file(&temporary)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, path = %temporary.display(), "temporary file not deleted");
        }
        StoreError::at(path)(error)
    })
}

/// Waits until the names in the directory of `path` have reached the disk.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// Waits until everything on the file system of `path` has reached the disk.
pub(super) fn sync_file_system(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(path)?)?)
}

/// Reads a file of at most `bytes_max`. Returns `None` if it is absent.
pub(super) fn read_bounded(path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(StoreError::at(path))?,
    };
    let mut content = Vec::new();
    let read = file.take(bytes_max + 1).read_to_end(&mut content);
    read.map_err(StoreError::at(path))?;
    if content.len() as u64 > bytes_max {
        return Err(StoreError::Damaged {
            path: path.to_owned(),
            reason: format!("it has more than {bytes_max} bytes"),
        });
    }
    Ok(Some(content))
}

/// Deletes a file. Succeeds if it is absent.
pub(super) fn delete_file(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::at(path)(error)),
        _ => Ok(()),
    }
}

/// Returns the names in a directory of the store.
pub(super) fn names(path: &Path) -> Result<Vec<String>, StoreError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(StoreError::at(path))? {
        let name = entry.map_err(StoreError::at(path))?.file_name();
        names.extend(name.into_string());
    }
    Ok(names)
}

/// Returns the used part of the file system of `path` in percent, as `df` computes it.
pub(super) fn used_percent(path: &Path) -> Result<u8, StoreError> {
    let status = rustix::fs::statvfs(path).map_err(|errno| StoreError::at(path)(errno.into()))?;
    let used = status.f_blocks.saturating_sub(status.f_bfree);
    let total = used + status.f_bavail;
    let percent = (used * 100).checked_div(total).unwrap_or(0);
    Ok(u8::try_from(percent).unwrap_or(100))
}
