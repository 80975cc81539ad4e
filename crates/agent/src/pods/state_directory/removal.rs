//! Removal of a directory tree that containers wrote.
//!
//! A container can nest directories deeper than any stack or path is long. Each directory that is found is moved into the
//! topmost one, so that no path has more than two components. Symbolic links are not followed.
//!
//! A container can also create millions of names in one directory. They are removed as they are read, and not held in
//! memory.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
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
    // A pass finds the directories that the one before has moved.
    while remove_names(&top, &mut moved)? {}
    drop(top);
    Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

/// Removes the names in the topmost directory. Returns false if it has no name.
fn remove_names(top: &OwnedFd, moved: &mut u64) -> io::Result<bool> {
    for_each_name(top, |name| {
        if !remove_file(top, name)? {
            let directory = openat(top, name, OPEN, Mode::empty())?;
            while empty_directory(&directory, top, moved)? {}
            unlinkat(top, name, AtFlags::REMOVEDIR)?;
        }
        Ok(())
    })
}

/// Removes the files in a directory, and moves the directories in it into the topmost one. Returns false if it is empty.
fn empty_directory(directory: &OwnedFd, top: &OwnedFd, moved: &mut u64) -> io::Result<bool> {
    for_each_name(directory, |name| {
        if !remove_file(directory, name)? {
            move_up(directory, name, top, moved)?;
        }
        Ok(())
    })
}

/// Calls a function for each name in a directory. Returns false if it has no name.
fn for_each_name(directory: &OwnedFd, mut call: impl FnMut(&CStr) -> io::Result<()>) -> io::Result<bool> {
    let mut has_any = false;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") {
            has_any = true;
            call(name)?;
        }
    }
    Ok(has_any)
}

/// Moves a directory into the topmost one under a new name.
fn move_up(from: &OwnedFd, name: &CStr, top: &OwnedFd, moved: &mut u64) -> io::Result<()> {
    loop {
        *moved += 1;
        match renameat(from, name, top, format!(".moved-{moved}")) {
            // A directory of that name exists, and is not empty.
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
            renamed => return Ok(renamed?),
        }
    }
}

/// Removes a name unless it is a directory. Returns true if it no longer exists.
fn remove_file(directory: &OwnedFd, name: &CStr) -> io::Result<bool> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::ISDIR | Errno::PERM) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}
