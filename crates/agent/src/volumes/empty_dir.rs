//! `emptyDir` volumes, on disk or in memory.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::atomic_writer::is_valid_path;
use super::error::{VolumeError, VolumeSetUpError};
use super::tmpfs;
use crate::object::quantity::Quantity;
use crate::object::{EmptyDir, Pod};
use crate::volumes::file_owners::{Owners, PodUsers};

/// Sets the `emptyDir` volumes in memory up. This precedes the start of the sandbox, which sees the mounts of
/// that time.
///
/// # Errors
/// [`VolumeSetUpError`] for the first volume that cannot be set up.
pub fn set_up_tmpfs(directory: &Path, pod: &Pod, users: Option<PodUsers>) -> Result<(), VolumeSetUpError> {
    let owners = Owners::of(users, pod.spec.security_context.fs_group);
    for volume in &pod.spec.volumes {
        let Some(empty_dir) = volume.empty_dir.as_ref().filter(|empty| empty.is_in_memory()) else {
            continue;
        };
        let result = if is_valid_path(&volume.name) {
            set_up(&directory.join(&volume.name), empty_dir, owners)
        } else {
            Err(VolumeError::Path {
                path: volume.name.clone(),
            })
        };
        result.map_err(|error| VolumeSetUpError::new(&volume.name, error))?;
    }
    Ok(())
}

/// Creates the directory of a volume, unless it exists.
///
/// # Errors
/// [`VolumeError::SizeLimit`] and [`VolumeError::File`].
pub(super) fn set_up(path: &Path, empty_dir: &EmptyDir, owners: Owners) -> Result<(), VolumeError> {
    let size_limit = match &empty_dir.size_limit {
        Some(text) => {
            let invalid = || VolumeError::SizeLimit { text: text.clone() };
            Some(Quantity::parse(text).ok_or_else(invalid)?)
        }
        None => None,
    };
    create(path, empty_dir.is_in_memory(), size_limit, owners)
        .map_err(|source| VolumeError::file(path, source))
}

fn create(path: &Path, is_in_memory: bool, size_limit: Option<Quantity>, owners: Owners) -> io::Result<()> {
    let is_new = if is_in_memory {
        fs::create_dir_all(path)?;
        tmpfs::mount(path, size_limit)?
    } else {
        !path.is_dir()
    };
    if !is_new {
        return Ok(());
    }
    fs::create_dir_all(path)?;
    owners.apply(fs::File::open(path)?)?;
    let mode = if owners.group.is_some() { 0o2777 } else { 0o777 };
    fs::set_permissions(path, Permissions::from_mode(mode))
}
