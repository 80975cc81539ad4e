//! Listeners of the node and of the Pods on it.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use explain::observation::{Listener, PodName};

use super::gap::ReadFailure;
use super::pods::PodNamespace;
use super::processes::Process;
use super::sockets::{self, Socket};

/// Maximum number of listeners of one namespace, so that one Pod cannot fill the observation.
const OF_NAMESPACE_MAX: usize = 1_000;
/// Maximum number of listeners of a node with its Pods, which bounds the size of the observation.
const LISTENERS_MAX: usize = 5_000;
/// Maximum number of open files that are compared with sockets, which bounds the time of the observation.
const FILES_MAX: usize = 500_000;
/// Time for the search of processes, at most: a node can have millions of open files.
const SEARCH_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Listeners with the processes that own them.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    /// Listeners of the node, then those of Pods.
    pub listeners: Vec<Listener>,
    /// Pods whose namespaces were read.
    pub inspected_pods: Vec<PodName>,
    /// True if there are more listeners.
    pub is_truncated: bool,
}

/// Reads the listeners of this network namespace and of the namespaces of Pods.
///
/// # Errors
///
/// A [`ReadFailure`] if the sockets of the node cannot be read.
pub(super) fn read(processes: &[Process], pods: &[PodNamespace]) -> Result<Listeners, ReadFailure> {
    let own = Path::new("/proc/thread-self/net");
    let (own_sockets, mut is_truncated) = sockets::read(own, OF_NAMESPACE_MAX, Socket::is_listener)?;
    let mut found: Vec<(Option<&PodName>, Socket)> =
        own_sockets.into_iter().map(|socket| (None, socket)).collect();
    let mut inspected_pods = Vec::new();
    for pod in pods {
        let first = pod
            .processes
            .first()
            .and_then(|position| processes.get(*position));
        let Some(process) = first else { continue };
        // A process may end at any time. Then its Pod is not inspected.
        let read = sockets::read(&process.directory("net"), OF_NAMESPACE_MAX, Socket::is_listener);
        let Ok((sockets, has_more)) = read else { continue };
        is_truncated |= has_more;
        inspected_pods.push(pod.pod.clone());
        found.extend(sockets.into_iter().map(|socket| (Some(&pod.pod), socket)));
    }
    is_truncated |= found.len() > LISTENERS_MAX;
    found.truncate(LISTENERS_MAX);
    let requested: HashSet<u64> = found.iter().map(|(_, socket)| socket.inode).collect();
    let owners = owners(processes, &requested);
    Ok(Listeners {
        listeners: listeners(&found, processes, &owners),
        inspected_pods,
        is_truncated,
    })
}

/// Returns the listeners without duplicates: several sockets may share an address (`SO_REUSEPORT`).
fn listeners(
    found: &[(Option<&PodName>, Socket)],
    processes: &[Process],
    owners: &HashMap<u64, usize>,
) -> Vec<Listener> {
    let mut seen = HashSet::new();
    let mut listeners = Vec::new();
    for (pod, socket) in found {
        if !seen.insert((*pod, socket.protocol, socket.local)) {
            continue;
        }
        let owner = owners
            .get(&socket.inode)
            .and_then(|position| processes.get(*position));
        listeners.push(Listener {
            protocol: socket.protocol,
            address: socket.local.ip(),
            port: socket.local.port(),
            v6_only: None,
            program: owner.map(|process| process.program.clone()),
            pod: (*pod).cloned(),
        });
    }
    listeners
}

/// Returns the positions of the processes that have sockets open, by inode. Without root, only those of the user.
pub(super) fn owners(processes: &[Process], requested: &HashSet<u64>) -> HashMap<u64, usize> {
    let start = Instant::now();
    let mut owners = HashMap::new();
    let mut files = 0;
    for (position, process) in processes.iter().enumerate() {
        if owners.len() == requested.len() || files >= FILES_MAX || start.elapsed() > SEARCH_TIMEOUT {
            break;
        }
        let Ok(entries) = fs::read_dir(process.directory("fd")) else {
            continue;
        };
        for entry in entries.flatten() {
            files += 1;
            let inode = socket_of(&entry);
            if let Some(inode) = inode.filter(|inode| requested.contains(inode)) {
                owners.entry(inode).or_insert(position);
            }
        }
    }
    owners
}

/// Returns true if a process has all of these sockets open. Without root, only processes of the user are known to.
pub(super) fn has_open(process: &Process, inodes: &HashSet<u64>) -> bool {
    let Ok(entries) = fs::read_dir(process.directory("fd")) else {
        return false;
    };
    let sockets = entries
        .flatten()
        .take(FILES_MAX)
        .filter_map(|entry| socket_of(&entry));
    let open: HashSet<u64> = sockets.filter(|inode| inodes.contains(inode)).collect();
    open.len() == inodes.len()
}

/// Returns the inode of the socket that an entry of `/proc/PID/fd` refers to.
fn socket_of(entry: &fs::DirEntry) -> Option<u64> {
    let link = fs::read_link(entry.path()).ok()?;
    socket_inode(&link.to_string_lossy())
}

/// Parses `socket:[20481]`.
fn socket_inode(link: &str) -> Option<u64> {
    let inode = link.strip_prefix("socket:[")?.strip_suffix(']')?;
    inode.parse().ok()
}

#[cfg(test)]
mod tests;
