//! Files that change all at once: a directory of links into `..data`, which is itself a link to the directory of the
//! present content, and is replaced by a rename. Programs that watch such directories know this form.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;

use super::directory::Directory;
use crate::user_namespaces::owners::Owners;

/// The link to the present content.
const DATA: &str = "..data";
/// What the next one is called until it takes its place.
const NEXT: &str = "..data_tmp";

/// A file of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// What is in it.
    pub content: Vec<u8>,
    /// Its permissions.
    pub mode: u32,
}

/// All files of a volume, by their paths in it.
pub type Files = BTreeMap<String, File>;

/// Whether a path may be that of a file in a volume: it leads nowhere else, and is not one of the links.
pub fn is_valid_path(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    !path.is_empty() && !path.starts_with("..") && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Makes the directory hold these files and no others; `false` if it did already. The group of the owners may read them, if
/// there is one.
///
/// All work goes by open directories, and no link in the volume is followed: a container may have put one there.
///
/// # Errors
/// Errors of the file system. The previous content stays.
pub fn write(path: &Path, files: &Files, owners: Owners) -> io::Result<bool> {
    fs::create_dir_all(path)?;
    let directory = Directory::open(path)?;
    directory.set_mode(0o755)?;
    let present = present(&directory);
    if let Some(present) = &present
        && holds(&directory, present, files)
    {
        return Ok(false);
    }
    let name = format!("..{}", Timestamp::now().strftime("%Y_%m_%d_%H_%M_%S.%9f"));
    let name = PathBuf::from(name);
    set_directory_owners(&directory, owners)?;
    fill(&directory, &name, files, owners)?;
    let next = Path::new(NEXT);
    directory.remove(next)?;
    directory.link(&name, next)?;
    directory.rename(next, Path::new(DATA))?;
    link_names(&directory, files)?;
    if let Some(present) = present {
        directory.remove(&present)?;
    }
    Ok(true)
}

/// The directory of the present content. Only a plain name with two dots before it is one: the agent makes no other
/// target, so any other was put there by a container, and is neither read nor removed.
fn present(directory: &Directory) -> Option<PathBuf> {
    let target = directory.read_link(Path::new(DATA)).ok()?;
    let name = target.to_str()?;
    let is_own = name.len() > 2 && name.starts_with("..") && !name.contains('/');
    (is_own && name != DATA && name != NEXT).then_some(target)
}

/// Changes the owner of a directory to the range. `fsGroup` alone applies to files only, as upstream.
fn set_directory_owners(directory: &Directory, owners: Owners) -> io::Result<()> {
    match owners.range {
        Some(_) => directory.set_owners(owners),
        None => Ok(()),
    }
}

fn fill(directory: &Directory, name: &Path, files: &Files, owners: Owners) -> io::Result<()> {
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
        let place = next.ensure_directory(parent, 0o755)?;
        set_directory_owners(&place, owners)?;
        place.write_new(Path::new(file_name), &file.content, mode & 0o777, owners)?;
    }
    Ok(())
}

/// Returns true if the directory contains exactly these files.
fn holds(directory: &Directory, name: &Path, files: &Files) -> bool {
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

/// A link for the first part of each path; those of before that have no file any more go.
fn link_names(directory: &Directory, files: &Files) -> io::Result<()> {
    let first = |path: &String| path.split('/').next().map(PathBuf::from);
    let wanted: BTreeSet<PathBuf> = files.keys().filter_map(first).collect();
    for (name, _) in directory.entries()? {
        if !name.to_string_lossy().starts_with("..") && !wanted.contains(&name) {
            directory.remove(&name)?;
        }
    }
    for name in wanted {
        let target = Path::new(DATA).join(&name);
        if directory.read_link(&name).is_ok_and(|present| present == target) {
            continue;
        }
        directory.remove(&name)?;
        directory.link(&target, &name)?;
    }
    Ok(())
}
