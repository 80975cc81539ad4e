//! Network namespaces of the clients: those of the threads in a control group and its descendants.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use netlink::route::NetworkNamespace;

use crate::client_sockets::ClientSocketError;

/// Maximum number of control groups that are read: many times those of a node with the most Pods.
const CONTROL_GROUPS_MAX: usize = 65_536;

/// Network namespaces of clients.
#[derive(Debug, Default)]
pub(super) struct ClientNamespaces {
    /// Namespaces, each once.
    pub found: Vec<NetworkNamespace>,
    /// Reason why others may be missing.
    pub failure: Option<ClientSocketError>,
}

/// Returns the network namespaces of the threads in a control group and in its descendants.
pub(super) fn client_namespaces(control_group: &Path) -> ClientNamespaces {
    let mut namespaces = ClientNamespaces::default();
    let mut known = HashSet::new();
    let mut waiting = vec![control_group.to_owned()];
    for _ in 0..CONTROL_GROUPS_MAX {
        let Some(path) = waiting.pop() else {
            return namespaces;
        };
        if let Err(error) = namespaces.add(&path, &mut known) {
            namespaces.failure = Some(error);
        }
        match children(&path) {
            Ok(children) => waiting.extend(children),
            Err(error) => namespaces.failure = Some(error),
        }
    }
    namespaces.failure = Some(ClientSocketError::ControlGroups(CONTROL_GROUPS_MAX));
    namespaces
}

impl ClientNamespaces {
    /// Adds the namespaces of the threads in one control group. Returns the last failure of a thread.
    fn add(&mut self, path: &Path, known: &mut HashSet<u64>) -> Result<(), ClientSocketError> {
        let mut result = Ok(());
        for thread in threads(path)? {
            if thread == 0 {
                result = Err(ClientSocketError::HiddenProcess {
                    path: path.to_owned(),
                });
                continue;
            }
            match namespace_of(thread, known) {
                Ok(file) => self.found.extend(file.map(NetworkNamespace::from)),
                Err(error) => result = Err(error),
            }
        }
        result
    }
}

/// Returns the network namespaces of the processes that this process may inspect, each once.
pub(super) fn process_namespaces() -> Vec<NetworkNamespace> {
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
