//! `hostPath` volumes: existing or created files and directories of the node.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::error::VolumeError;
use crate::object::HostPath;

/// Checks the type of a path, and creates it if its type requires that. Returns the path.
///
/// # Errors
/// [`VolumeError::Hidden`] for a path in one of the hidden paths, [`VolumeError::HostPath`] for another type, and
/// [`VolumeError::File`].
pub(super) fn set_up(host_path: &HostPath, hidden: &[PathBuf]) -> Result<PathBuf, VolumeError> {
    let path = PathBuf::from(&host_path.path);
    let failed = |source| VolumeError::file(&path, source);
    if is_hidden(&path, hidden).map_err(failed)? {
        return Err(VolumeError::Hidden {
            path: host_path.path.clone(),
        });
    }
    let created = match host_path.kind.as_str() {
        "DirectoryOrCreate" if !path.exists() => fs::create_dir_all(&path),
        "FileOrCreate" if !path.exists() => fs::File::create(&path).map(drop),
        _ => Ok(()),
    };
    created.map_err(failed)?;
    let kind = fs::metadata(&path).map_err(failed)?.file_type();
    let (is_expected, expected) = match host_path.kind.as_str() {
        "Directory" | "DirectoryOrCreate" => (kind.is_dir(), "a directory"),
        "File" | "FileOrCreate" => (kind.is_file(), "a file"),
        "Socket" => (kind.is_socket(), "a socket"),
        "CharDevice" => (kind.is_char_device(), "a character device"),
        "BlockDevice" => (kind.is_block_device(), "a block device"),
        _ => (true, ""),
    };
    if is_expected {
        Ok(path)
    } else {
        Err(VolumeError::HostPath {
            path: host_path.path.clone(),
            expected,
        })
    }
}

/// Returns true if a path, or its existing part, leads into a hidden path. A path above a hidden one is
/// allowed, because the sandbox covers the hidden one in it.
fn is_hidden(path: &Path, hidden: &[PathBuf]) -> io::Result<bool> {
    let existing = path.ancestors().find(|ancestor| ancestor.exists());
    let real = fs::canonicalize(existing.unwrap_or(Path::new("/")))?;
    let is_inside = |hidden: &PathBuf| {
        let hidden = fs::canonicalize(hidden).unwrap_or_else(|_| hidden.clone());
        real.starts_with(&hidden) || path.starts_with(&hidden)
    };
    Ok(hidden.iter().any(is_inside))
}
