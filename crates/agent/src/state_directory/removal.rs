//! Removal of a directory tree that containers wrote.
//!
//! A container can nest directories deeper than any stack or path is long. Each directory that is found is moved into the
//! topmost one, so that no path has more than two components. Symbolic links are not followed.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;

#[cfg(test)]
mod tests;

const OPEN: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Removes a directory with everything below it. Succeeds if it is missing.
///
/// # Errors
/// Errors of `openat(2)`, `renameat(2)` and `unlinkat(2)`.
pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    let top = match openat(CWD, path, OPEN, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    let mut moved = 0_u64;
    loop {
        let names = names(&top)?;
        if names.is_empty() {
            break;
        }
        for name in names {
            if remove_file(&top, &name)? {
                continue;
            }
            let directory = openat(&top, &name, OPEN, Mode::empty())?;
            for inner in self::names(&directory)? {
                if !remove_file(&directory, &inner)? {
                    move_up(&directory, &inner, &top, &mut moved)?;
                }
            }
            unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
        }
    }
    drop(top);
    Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

/// Moves a directory into the topmost one under a new name.
fn move_up(from: &OwnedFd, name: &OsString, top: &OwnedFd, moved: &mut u64) -> io::Result<()> {
    loop {
        *moved += 1;
        match renameat(from, name, top, format!(".moved-{moved}")) {
            // A directory of that name exists, and is not empty.
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
            renamed => return Ok(renamed?),
        }
    }
}

/// Removes a name unless it is a directory. Returns true if it is gone.
fn remove_file(directory: &OwnedFd, name: &OsString) -> io::Result<bool> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::ISDIR | Errno::PERM) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn names(directory: impl AsFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}
