//! Writing of contents into a database file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::{Contents, TransferError, WriteOptions, WriteSummary};
use crate::sqlite::{DataDirectory, Database};
use crate::{DATABASE_FILE, StoreError};

/// Writes into the directory of a SQLite store, in one transaction.
pub(super) fn directory(
    directory: &Path,
    contents: &Contents,
    options: WriteOptions,
    progress: impl FnMut(usize),
) -> Result<WriteSummary, TransferError> {
    let data_directory = DataDirectory::acquire(directory)?;
    let path = data_directory.file(DATABASE_FILE);
    let mut database = Database::open(&path)?;
    let present = database.newest_revision(&path)?;
    let is_empty = present.0 == 0;
    if !is_empty && !options.overwrite {
        return Err(TransferError::NotEmpty {
            destination: path.display().to_string(),
        });
    }
    let revision = options.revision_above(contents, (!is_empty).then_some(present));
    database.replace(&path, &contents.records, revision, progress)?;
    Ok(WriteSummary {
        records: contents.records.len(),
        revision,
    })
}

/// Writes into a new file, which appears when it is complete.
pub(super) fn file(
    path: &Path,
    contents: &Contents,
    options: WriteOptions,
    progress: impl FnMut(usize),
) -> Result<WriteSummary, TransferError> {
    if path.exists() && !options.overwrite {
        return Err(TransferError::NotEmpty {
            destination: path.display().to_string(),
        });
    }
    let io_error = |error: io::Error| StoreError::Unavailable {
        reason: format!("cannot write {}: {error}", path.display()),
    };
    let name = path
        .file_name()
        .ok_or_else(|| io_error(io::ErrorKind::InvalidInput.into()))?;
    let temporary = path.with_file_name(format!(".{}.unfinished", name.to_string_lossy()));
    remove(&temporary).map_err(io_error)?;
    // The file contains Secrets: only its owner may read it, from the start.
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .map_err(io_error)?;
    let revision = options.revision_above(contents, None);
    let mut database = Database::open(&temporary)?;
    database.replace(&temporary, &contents.records, revision, progress)?;
    database.close_as_single_file(&temporary)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    std::fs::rename(&temporary, path)
        .and_then(|()| File::open(parent.unwrap_or(Path::new(".")))?.sync_all())
        .map_err(io_error)?;
    Ok(WriteSummary {
        records: contents.records.len(),
        revision,
    })
}

/// Rewrites the database of a SQLite store without removed data.
pub(super) fn erase_removed(directory: &Path) -> Result<(), StoreError> {
    let data_directory = DataDirectory::acquire(directory)?;
    let path = data_directory.file(DATABASE_FILE);
    Database::open(&path)?.rewrite_file(&path)
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
