//! Removal of all Pods of a node on which no agent runs: their processes, control groups, links and directories.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use netlink::route::RouteError;
use rustix::io::Errno;
use rustix::process::Signal;
use tokio::time::{Instant, timeout_at};

use crate::containers::Checkpoint;
use crate::containers::stop_signal;
use crate::network;
use crate::pods::state_directory::{PodDirectory, Record, StateDirectory, StateError};
use crate::resources::cgroups::{self, Cgroups};
use crate::runtime::{RuntimeError, Sandbox, SandboxEvent};
use crate::sandbox::protocol::ContainerState;

/// Result of the removal of all Pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovedPods {
    /// Removed Pods as `namespace/name`.
    pub pods: Vec<String>,
    /// Deleted links.
    pub links: Vec<String>,
    /// Objects that stay, with the reason.
    pub failures: Vec<String>,
}

/// Removes all Pods that an agent with this state directory left. Containers have `grace` between their stop signal and
/// SIGKILL. A second call finds nothing.
///
/// # Errors
/// [`StateError`] if the records cannot be listed.
pub async fn remove_pods(state_directory: &Path, grace: Duration) -> Result<RemovedPods, StateError> {
    let mut removed = RemovedPods::default();
    if state_directory.exists() {
        let state = StateDirectory::open(state_directory)?;
        let (records, unreadable) = state.records()?;
        let mut pods = Vec::new();
        for record in &records {
            pods.push((Some(record), state.pod(&record.uid)?));
        }
        pods.extend(unreadable.into_iter().map(|directory| (None, directory)));
        let mut ends = Vec::new();
        for (record, directory) in &pods {
            ends.push(end_sandbox(*record, directory, grace));
        }
        let failures = join_all(ends).await;
        let cgroups = Cgroups::open().ok();
        for ((record, directory), failure) in pods.iter().zip(failures) {
            // The next call needs the directory of a sandbox that stays.
            if let Some(failure) = failure {
                removed.failures.push(failure);
                continue;
            }
            if let Some(record) = record {
                cgroups::remove_groups(&record.control_groups);
                if let Some(cgroups) = &cgroups {
                    cgroups.remove_pod(&record.uid);
                }
                removed.pods.push(name_of(record));
            }
            if let Err(error) = directory.remove() {
                removed.failures.push(format!("directory of a Pod: {error}"));
            }
        }
    }
    match delete_links() {
        Ok(links) => removed.links = links,
        Err(error) => removed.failures.push(format!("links of Pods: {error}")),
    }
    Ok(removed)
}

fn delete_links() -> Result<Vec<String>, RouteError> {
    network::delete_orphaned_links(&[])
}

fn name_of(record: &Record) -> String {
    format!("{}/{}", record.namespace, record.name)
}

/// Ends the containers of a sandbox and the sandbox. Returns the reason if it stays.
async fn end_sandbox(record: Option<&Record>, directory: &PodDirectory, grace: Duration) -> Option<String> {
    let failed = |error: RuntimeError| {
        let name = record.map_or_else(|| "without a readable record".to_owned(), name_of);
        Some(format!("Pod {name}: {error}"))
    };
    let (mut sandbox, containers) = match Sandbox::connect(directory).await {
        Ok(connected) => connected,
        Err(RuntimeError::Disconnected { source }) if is_without_listener(&source) => return None,
        Err(error) => return failed(error),
    };
    let checkpoint = directory.read_checkpoint().unwrap_or_default();
    end_containers(&mut sandbox, containers, &checkpoint, grace).await;
    sandbox.kill().await.err().and_then(failed)
}

/// Returns true if no process listens at a socket: there is no sandbox. Any other error says nothing about one.
fn is_without_listener(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::NOTDIR | Errno::CONNREFUSED)
    )
}

/// Signals the containers and waits until they have exited, for `grace` at most.
async fn end_containers(
    sandbox: &mut Sandbox,
    containers: BTreeMap<String, ContainerState>,
    checkpoint: &Checkpoint,
    grace: Duration,
) {
    let deadline = Instant::now() + grace;
    let running = containers
        .into_iter()
        .filter(|(_, state)| matches!(state, ContainerState::Running { .. }));
    let mut running: Vec<String> = running.map(|(name, _)| name).collect();
    let executor = sandbox.executor();
    for name in &running {
        let image = checkpoint.get(name).and_then(|container| container.image());
        let named = image.and_then(|image| image.stop_signal.as_deref());
        let signal = named.and_then(stop_signal::parse).unwrap_or(Signal::TERM);
        if let Err(error) = executor.signal(name, signal).await {
            tracing::debug!(container = name, %error, "container not signalled");
        }
    }
    while !running.is_empty() {
        match timeout_at(deadline, sandbox.next_event()).await {
            Ok(SandboxEvent::ContainerExited { name, .. }) => running.retain(|other| *other != name),
            Ok(SandboxEvent::SandboxExited) | Err(_) => return,
        }
    }
}
