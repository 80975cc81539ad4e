//! End of all Pods of a node on which no agent runs: their processes, control groups, links and directories.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use netlink::route::RouteError;
use rustix::process::Signal;
use tokio::time::{Instant, timeout_at};

use crate::cgroups::Cgroups;
use crate::containers::Checkpoint;
use crate::runtime::{Sandbox, SandboxEvent};
use crate::sandbox::protocol::ContainerState;
use crate::state_directory::{PodDirectory, Record, StateDirectory, StateError};
use crate::{network, stop_signal};

/// Result of the end of all Pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndedPods {
    /// Ended Pods as `namespace/name`.
    pub pods: Vec<String>,
    /// Deleted links.
    pub links: Vec<String>,
    /// Objects that stay, with the reason.
    pub failures: Vec<String>,
}

/// Ends all Pods that an agent with this state directory left. Containers have `grace` between their stop signal and
/// SIGKILL. A second call finds nothing.
///
/// # Errors
/// [`StateError`] if the records cannot be listed.
pub async fn end_pods(state_directory: &Path, grace: Duration) -> Result<EndedPods, StateError> {
    let mut ended = EndedPods::default();
    if state_directory.exists() {
        let state = StateDirectory::open(state_directory)?;
        let (records, unreadable) = state.records()?;
        let mut directories = unreadable;
        let mut ends = Vec::new();
        for record in &records {
            let directory = state.pod(&record.uid)?;
            ends.push(end_sandbox(record, directory.clone(), grace));
            directories.push(directory);
        }
        ended.failures.extend(join_all(ends).await.into_iter().flatten());
        let cgroups = Cgroups::open().ok();
        for record in records {
            if let Some(cgroups) = &cgroups {
                cgroups.remove_pod(&record.uid);
            }
            ended.pods.push(format!("{}/{}", record.namespace, record.name));
        }
        for directory in directories {
            if let Err(error) = directory.remove() {
                ended.failures.push(format!("directory of a Pod: {error}"));
            }
        }
    }
    match delete_links() {
        Ok(links) => ended.links = links,
        Err(error) => ended.failures.push(format!("links of Pods: {error}")),
    }
    Ok(ended)
}

fn delete_links() -> Result<Vec<String>, RouteError> {
    network::delete_orphaned_links(&[])
}

/// Ends the containers of a sandbox and the sandbox. Returns the reason if it stays.
async fn end_sandbox(record: &Record, directory: PodDirectory, grace: Duration) -> Option<String> {
    // Without a socket there is no sandbox.
    let (mut sandbox, containers) = Sandbox::connect(&directory).await.ok()?;
    let checkpoint = directory.read_checkpoint().unwrap_or_default();
    end_containers(&mut sandbox, containers, &checkpoint, grace).await;
    let killed = sandbox.kill().await.err()?;
    Some(format!("Pod {}/{}: {killed}", record.namespace, record.name))
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
