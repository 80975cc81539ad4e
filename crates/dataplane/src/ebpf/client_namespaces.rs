//! Network namespaces of the clients: those of the threads in a control group and its descendants.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use netlink::route::NetworkNamespace;

use crate::client_sockets::ClientSocketError;

/// Maximum of control groups that are read: many times those of a node with the most Pods.
const CONTROL_GROUPS_MAX: usize = 65_536;

/// Returns the network namespaces of the threads in the control group, each once.
///
/// # Errors
///
/// [`ClientSocketError`] if a thread is hidden, or its namespace cannot be read.
pub fn client_namespaces(control_group: &Path) -> Result<Vec<NetworkNamespace>, ClientSocketError> {
    let mut known = HashSet::new();
    let mut namespaces = Vec::new();
    let mut waiting = vec![control_group.to_owned()];
    let mut count = 0;
    while let Some(path) = waiting.pop() {
        count += 1;
        if count > CONTROL_GROUPS_MAX {
            return Err(ClientSocketError::ControlGroups(CONTROL_GROUPS_MAX));
        }
        for thread in threads(&path)? {
            if thread == 0 {
                return Err(ClientSocketError::HiddenProcess { path });
            }
            if let Some(file) = namespace_of(thread, &mut known)? {
                namespaces.push(NetworkNamespace::from(file));
            }
        }
        waiting.extend(children(&path)?);
    }
    Ok(namespaces)
}

/// Returns the network namespaces of the processes that this process may inspect, each once.
pub fn process_namespaces() -> Vec<NetworkNamespace> {
    let mut known = HashSet::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|process| namespace_of(process, &mut known).ok().flatten())
        .map(NetworkNamespace::from)
        .collect()
}

/// Opens the namespace of a thread; `None` if it is known, or if the thread has ended.
fn namespace_of(thread: u32, known: &mut HashSet<u64>) -> Result<Option<File>, ClientSocketError> {
    let path = PathBuf::from(format!("/proc/{thread}/ns/net"));
    let mut open = || -> io::Result<Option<File>> {
        if known.contains(&fs::metadata(&path)?.ino()) {
            return Ok(None);
        }
        let file = File::open(&path)?;
        let is_new = known.insert(file.metadata()?.ino());
        Ok(is_new.then_some(file))
    };
    match open() {
        Err(error) if is_gone(&error) => Ok(None),
        Err(source) => Err(ClientSocketError::Thread { thread, source }),
        Ok(file) => Ok(file),
    }
}

/// Returns the threads of a control group. A thread in a foreign PID namespace is 0.
fn threads(path: &Path) -> Result<Vec<u32>, ClientSocketError> {
    match fs::read_to_string(path.join("cgroup.threads")) {
        Ok(list) => Ok(list.lines().filter_map(|line| line.parse().ok()).collect()),
        // A control group of an invalid type has no threads.
        Err(error) if is_gone(&error) || error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(Vec::new()),
        Err(source) => Err(ClientSocketError::ControlGroup {
            path: path.to_owned(),
            source,
        }),
    }
}

fn children(path: &Path) -> Result<Vec<PathBuf>, ClientSocketError> {
    let listed = || -> io::Result<Vec<PathBuf>> {
        let mut children = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                children.push(entry.path());
            }
        }
        Ok(children)
    };
    match listed() {
        Err(error) if is_gone(&error) => Ok(Vec::new()),
        Err(source) => Err(ClientSocketError::ControlGroup {
            path: path.to_owned(),
            source,
        }),
        Ok(children) => Ok(children),
    }
}

/// Returns true if a thread or control group has ended meanwhile.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::ESRCH | libc::ENODEV)
    )
}

#[cfg(test)]
mod tests;
