//! Atomic update of the files in a volume (kubelet's `volume/util/atomic_writer.go`).
//!
//! The volume contains symbolic links into `..data`. `..data` is a symbolic link to a directory with the current
//! content, and a rename replaces this link. Programs that watch such volumes rely on this layout.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;

use super::directory::Directory;
use crate::volumes::file_owners::Owners;

/// Symbolic link to the current content.
const DATA: &str = "..data";
/// Name of the next symbolic link before its rename.
const NEXT: &str = "..data_tmp";

/// File of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Bytes of the file.
    pub content: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
}

/// Files of a volume by their paths in it.
pub type Files = BTreeMap<String, File>;

/// Returns true if a path is valid for a file of a volume: it stays in the volume and does not begin with two dots.
pub fn is_valid_path(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    !path.is_empty() && !path.starts_with("..") && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Makes the volume contain exactly these files, and returns false if it already does. The group of the owners, if any,
/// may read them.
///
/// The function uses open directories only and follows no symbolic link in the volume, because a container may have
/// created one.
///
/// # Errors
/// Errors of the file system. The previous content stays.
pub fn write(path: &Path, files: &Files, owners: Owners) -> io::Result<bool> {
    fs::create_dir_all(path)?;
    let directory = Directory::open(path)?;
    directory.set_mode(0o755)?;
    let present = present_content(&directory);
    if let Some(present) = &present
        && contains_exactly(&directory, present, files)
    {
        return Ok(false);
    }
    let name = format!("..{}", Timestamp::now().strftime("%Y_%m_%d_%H_%M_%S.%9f"));
    let name = PathBuf::from(name);
    set_directory_owners(&directory, owners)?;
    write_files(&directory, &name, files, owners)?;
    let next = Path::new(NEXT);
    directory.remove(next)?;
    directory.link(&name, next)?;
    directory.rename(next, Path::new(DATA))?;
    update_links(&directory, files)?;
    if let Some(present) = present {
        directory.remove(&present)?;
    }
    Ok(true)
}

/// Returns the directory of the current content. The agent creates only names with two leading dots. A container
/// created any other target, which is neither read nor removed.
fn present_content(directory: &Directory) -> Option<PathBuf> {
    let target = directory.read_link(Path::new(DATA)).ok()?;
    let name = target.to_str()?;
    let is_own = name.len() > 2 && name.starts_with("..") && !name.contains('/');
    (is_own && name != DATA && name != NEXT).then_some(target)
}

/// Sets the owners of a directory to the range. As upstream, `fsGroup` alone applies to files only.
fn set_directory_owners(directory: &Directory, owners: Owners) -> io::Result<()> {
    match owners.range {
        Some(_) => directory.set_owners(owners),
        None => Ok(()),
    }
}

fn write_files(directory: &Directory, name: &Path, files: &Files, owners: Owners) -> io::Result<()> {
    let next = directory.create_directory(name, 0o755)?;
    set_directory_owners(&next, owners)?;
    for (path, file) in files {
        let path = Path::new(path);
        let parent = path.parent().unwrap_or(Path::new(""));
        let file_name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mode = match owners.group {
            Some(_) => file.mode | 0o440,
            None => file.mode,
        };
        let directory = next.ensure_directory(parent, 0o755)?;
        set_directory_owners(&directory, owners)?;
        directory.write_new(Path::new(file_name), &file.content, mode & 0o777, owners)?;
    }
    Ok(())
}

/// Returns true if the directory contains exactly these files.
fn contains_exactly(directory: &Directory, name: &Path, files: &Files) -> bool {
    let Ok(present) = directory.open_directory(name) else {
        return false;
    };
    let has_all = |path: &String, file: &File| {
        let content = present.read(Path::new(path), file.content.len());
        content.is_ok_and(|content| content == file.content)
    };
    present.files().is_ok_and(|found| found.len() == files.len())
        && files.iter().all(|(path, file)| has_all(path, file))
}

/// Creates a symbolic link for the first part of each path, and removes those of removed files.
fn update_links(directory: &Directory, files: &Files) -> io::Result<()> {
    let first = |path: &String| path.split('/').next().map(PathBuf::from);
    let names: BTreeSet<PathBuf> = files.keys().filter_map(first).collect();
    for (name, _) in directory.entries()? {
        if !name.to_string_lossy().starts_with("..") && !names.contains(&name) {
            directory.remove(&name)?;
        }
    }
    for name in names {
        let target = Path::new(DATA).join(&name);
        if directory.read_link(&name).is_ok_and(|present| present == target) {
            continue;
        }
        directory.remove(&name)?;
        directory.link(&target, &name)?;
    }
    Ok(())
}
