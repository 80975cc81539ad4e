//! User and groups of a container from an image, from `/etc/passwd` and `/etc/group` of its root.
//!
//! The files are untrusted input. They are read below the root of this process, without links of `/proc`.

use std::fs::File;
use std::io::{self, Read};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::context::with_context;
use super::protocol::{Confinement, ID_MAX, ImageRoot, Program};

#[cfg(test)]
mod tests;

/// Maximum number of bytes of each file: 16 000 users at 64 bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of supplementary groups of one account. With its home it fits one message to the sandbox.
const GROUPS_MAX: usize = 4096;
/// Maximum number of bytes of a home directory (`PATH_MAX` of the kernel).
const HOME_BYTES_MAX: usize = 4096;
/// Home directory of a user without an entry.
const HOME_DEFAULT: &str = "/";

/// User of a container with its groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Account {
    pub user: u32,
    pub group: u32,
    pub groups: Vec<u32>,
    pub home: String,
}

impl Account {
    /// Gives a program this account. A home directory in its environment takes precedence.
    pub(super) fn apply_to(self, program: &mut Program) {
        program.confinement.user = Some(self.user);
        program.confinement.group = Some(self.group);
        program.confinement.groups = self.groups;
        program.environment.entry("HOME".to_owned()).or_insert(self.home);
    }
}

/// Entry of `/etc/passwd`.
struct UserEntry<'a> {
    name: &'a str,
    user: u32,
    group: u32,
    home: &'a str,
}

/// Entry of `/etc/group`.
struct GroupEntry<'a> {
    name: &'a str,
    group: u32,
    members: &'a str,
}

/// Returns the account of a container in the root of this process.
///
/// # Errors
/// `InvalidInput` if a name has no entry or a number is too high, `InvalidData` for a file that is too large.
pub(super) fn of_container(root: &ImageRoot, confinement: &Confinement) -> io::Result<Account> {
    let passwd = read("/etc/passwd")?;
    let group = read("/etc/group")?;
    resolve(root, confinement, &passwd, &group)
}

/// Reads a file of the image. A missing file is empty.
fn read(path: &str) -> io::Result<String> {
    let failed = |error: &io::Error| with_context(&format!("{path} of the image"), error);
    // Opening a named pipe must not block.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::NO_MAGICLINKS;
    let file = match openat2(CWD, path, flags, Mode::empty(), resolve) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(String::new()),
        opened => File::from(opened.map_err(|errno| failed(&errno.into()))?),
    };
    if !file.metadata()?.is_file() {
        return Err(failed(&io::Error::new(
            io::ErrorKind::InvalidData,
            "it is not a regular file",
        )));
    }
    let mut content = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut content)?;
    if content.len() as u64 > FILE_BYTES_MAX {
        let message = format!("it is larger than {FILE_BYTES_MAX} bytes");
        return Err(failed(&io::Error::new(io::ErrorKind::InvalidData, message)));
    }
    Ok(String::from_utf8_lossy(&content).into_owned())
}

/// Resolves the user of an image; the pure part of [`of_container`].
fn resolve(root: &ImageRoot, confinement: &Confinement, passwd: &str, group: &str) -> io::Result<Account> {
    let number = confinement.user.map(|user| user.to_string());
    let (user_name, group_name) = match (&number, root.user.split_once(':')) {
        // `runAsUser` replaces both parts.
        (Some(number), _) => (number.as_str(), None),
        (None, Some((user, group))) => (user, Some(group).filter(|group| !group.is_empty())),
        (None, None) => (root.user.as_str(), None),
    };
    let user_name = if user_name.is_empty() { "0" } else { user_name };
    let id = number_of("user", user_name)?;
    let mut users = passwd.lines().filter_map(user_entry);
    let entry = users.find(|entry| match id {
        Some(id) => entry.user == id,
        None => entry.name == user_name,
    });
    let user = match (&entry, id) {
        (_, Some(id)) => id,
        (Some(entry), None) => entry.user,
        (None, None) => return Err(missing_entry("user", user_name, "passwd")),
    };
    let groups = || group.lines().filter_map(group_entry);
    let image_group = match group_name {
        Some(name) => match (
            number_of("group", name)?,
            groups().find(|entry| entry.name == name),
        ) {
            (Some(id), _) => Some(id),
            (None, Some(entry)) => Some(entry.group),
            (None, None) => return Err(missing_entry("group", name, "group")),
        },
        None => entry.as_ref().map(|entry| entry.group),
    };
    let mut supplementary = confinement.groups.clone();
    // As runtimes do, an explicit group of the image excludes the memberships of the user.
    if let Some(entry) = entry
        .as_ref()
        .filter(|_| root.merges_groups && group_name.is_none())
    {
        let is_member = |group: &GroupEntry<'_>| group.members.split(',').any(|member| member == entry.name);
        for group in groups().filter(is_member) {
            if supplementary.len() < GROUPS_MAX && !supplementary.contains(&group.group) {
                supplementary.push(group.group);
            }
        }
    }
    let home = entry.as_ref().map(|entry| entry.home);
    Ok(Account {
        user,
        group: confinement.group.or(image_group).unwrap_or(0),
        groups: supplementary,
        home: home
            .filter(|home| home.starts_with('/') && home.len() <= HOME_BYTES_MAX)
            .unwrap_or(HOME_DEFAULT)
            .to_owned(),
    })
}

/// Parses a number in place of a name; `None` for a name.
///
/// # Errors
/// `InvalidInput` for a number above [`ID_MAX`].
fn number_of(kind: &str, name: &str) -> io::Result<Option<u32>> {
    match parse_id(name) {
        None if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) => {
            let message = format!("{kind} {name} must be between 0 and {ID_MAX}");
            Err(io::Error::new(io::ErrorKind::InvalidInput, message))
        }
        id => Ok(id),
    }
}

/// Parses a user or group; `None` for another text or a number above [`ID_MAX`].
fn parse_id(text: &str) -> Option<u32> {
    text.parse::<u32>().ok().filter(|id| *id <= ID_MAX)
}

fn missing_entry(kind: &str, name: &str, file: &str) -> io::Error {
    let message = format!("unable to find {kind} {name}: no matching entries in {file} file of the image");
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// Parses `name:password:uid:gid:comment:home:shell`. A malformed line is skipped.
fn user_entry(line: &str) -> Option<UserEntry<'_>> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    let mut fields = fields.skip(1);
    let user = parse_id(fields.next()?)?;
    let group = parse_id(fields.next()?)?;
    let home = fields.nth(1).unwrap_or_default();
    Some(UserEntry {
        name,
        user,
        group,
        home,
    })
}

/// Parses `name:password:gid:members`. A malformed line is skipped.
fn group_entry(line: &str) -> Option<GroupEntry<'_>> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    let group = parse_id(fields.nth(1)?)?;
    let members = fields.next().unwrap_or_default();
    Some(GroupEntry { name, group, members })
}
