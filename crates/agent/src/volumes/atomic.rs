//! Files that change all at once: a directory of links into `..data`, which is itself a link to the directory of the
//! present content, and is replaced by a rename. Programs that watch such directories know this form.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;

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

/// Makes the directory hold these files and no others; `false` if it did already. `group` may read them, if given.
pub fn write(directory: &Path, files: &Files, group: Option<u32>) -> io::Result<bool> {
    fs::create_dir_all(directory)?;
    fs::set_permissions(directory, Permissions::from_mode(0o755))?;
    let present = fs::read_link(directory.join(DATA)).ok();
    if let Some(present) = &present
        && holds(&directory.join(present), files)
    {
        return Ok(false);
    }
    let name = format!("..{}", Timestamp::now().strftime("%Y_%m_%d_%H_%M_%S.%9f"));
    let next = directory.join(&name);
    fill(&next, files, group)?;
    let link = directory.join(NEXT);
    remove_if_there(&link)?;
    symlink(&name, &link)?;
    fs::rename(&link, directory.join(DATA))?;
    link_names(directory, files)?;
    if let Some(present) = present {
        fs::remove_dir_all(directory.join(present))?;
    }
    Ok(true)
}

fn fill(next: &Path, files: &Files, group: Option<u32>) -> io::Result<()> {
    fs::create_dir(next)?;
    fs::set_permissions(next, Permissions::from_mode(0o755))?;
    for (path, file) in files {
        let target = next.join(path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&target, &file.content)?;
        let mode = match group {
            Some(_) => file.mode | 0o440,
            None => file.mode,
        };
        fs::set_permissions(&target, Permissions::from_mode(mode & 0o777))?;
        if group.is_some() {
            chown(&target, None, group)?;
        }
    }
    Ok(())
}

/// Whether the directory holds just these files.
fn holds(directory: &Path, files: &Files) -> bool {
    let mut found = Vec::new();
    if collect(directory, Path::new(""), &mut found).is_err() || found.len() != files.len() {
        return false;
    }
    files
        .iter()
        .all(|(path, file)| fs::read(directory.join(path)).is_ok_and(|content| content == file.content))
}

fn collect(root: &Path, below: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect(root, &path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

/// A link for the first part of each path; those of before that have no file any more go.
fn link_names(directory: &Path, files: &Files) -> io::Result<()> {
    let first = |path: &String| path.split('/').next().map(str::to_owned);
    let wanted: Vec<String> = files.keys().filter_map(first).collect();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.starts_with("..") && !wanted.contains(&name) {
            remove_if_there(&directory.join(name))?;
        }
    }
    for name in wanted {
        match symlink(Path::new(DATA).join(&name), directory.join(&name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
