//! Pods that an earlier agent or a worker that panicked left on the node: found, then adopted by a worker or removed.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::PathBuf;

use crate::network;
use crate::pods::context::Context;
use crate::pods::state_directory::{Record, StateError};
use crate::resources::cgroups;
use crate::runtime::Sandbox;
use crate::sandbox::protocol::ContainerState;
use crate::volumes::file_owners::PodUsers;

/// Records and leftovers of Pods by UID.
pub(crate) type Leftovers = HashMap<String, (Record, Leftover)>;

/// Resources of a Pod that an earlier agent started.
pub(crate) struct Leftover {
    /// Sandbox; `None` if it does not run any more.
    pub sandbox: Option<Sandbox>,
    /// Containers that the sandbox has started, as it last reported them.
    pub containers: BTreeMap<String, ContainerState>,
    /// Reserved addresses of the Pod.
    pub addresses: Vec<IpAddr>,
    /// User namespace of the Pod; its host IDs are reserved.
    pub users: Option<PodUsers>,
    /// True if the sandbox can start containers from images.
    pub runs_images: bool,
    /// Control groups of a Pod whose processes outlive its sandbox.
    pub control_groups: Vec<PathBuf>,
}

/// Finds the Pods of earlier agents and reserves their addresses and host IDs.
///
/// # Errors
/// [`StateError`] if the records cannot be listed, or if a directory without a readable record cannot be removed.
pub(crate) async fn find(context: &Context) -> Result<Leftovers, StateError> {
    let (records, unreadable) = context.state.records()?;
    for directory in unreadable {
        tracing::warn!(?directory, "record of a Pod not readable; directory removed");
        directory.remove_on_thread().await?;
    }
    let mut leftovers = Leftovers::new();
    for record in records {
        let directory = context.state.pod(&record.uid)?;
        let (sandbox, containers) = Sandbox::connect(&directory).await.ok().unzip();
        let mut addresses = record.addresses.clone();
        if !addresses.is_empty() && !context.addresses().reserve(&addresses) {
            tracing::warn!(
                uid = record.uid,
                ?addresses,
                "addresses of a Pod outside of the node's Pod ranges"
            );
            if sandbox.is_none() {
                addresses.clear();
            }
        }
        let mut leftover = Leftover {
            sandbox,
            containers: containers.unwrap_or_default(),
            addresses,
            users: record.users,
            runs_images: record.runs_images,
            control_groups: record.control_groups.clone(),
        };
        reserve_ids(context, &record, &mut leftover).await;
        leftovers.insert(record.uid.clone(), (record, leftover));
    }
    restore_host_ports(context, &leftovers);
    Ok(leftovers)
}

/// Restores the host ports of the Pods, and removes others that remain. A Pod without addresses has none: its earlier
/// addresses may belong to another Pod.
fn restore_host_ports(context: &Context, leftovers: &Leftovers) {
    let connected = leftovers
        .values()
        .filter(|(_, leftover)| !leftover.addresses.is_empty());
    let ports = connected.map(|(record, _)| (record.uid.clone(), record.host_ports.clone()));
    if let Err(error) = context.host_ports.restore(ports) {
        tracing::warn!(%error, "host ports of earlier Pods not restored");
    }
}

/// Reserves the host IDs of a Pod. A Pod whose record names the IDs of another Pod restarts with new ones.
async fn reserve_ids(context: &Context, record: &Record, leftover: &mut Leftover) {
    let is_in_use = |users: &mut PodUsers| !context.id_ranges().reserve(users.ids);
    let Some(users) = leftover.users.take_if(is_in_use) else {
        return;
    };
    tracing::error!(
        uid = record.uid,
        first = users.ids.first(),
        "host IDs of a Pod belong to another Pod"
    );
    if let Some(sandbox) = leftover.sandbox.take()
        && let Err(error) = sandbox.kill().await
    {
        tracing::error!(uid = record.uid, %error, "sandbox not killed");
    }
}

/// Ends the processes of a Pod whose worker panicked, and removes its network. The next worker continues with its directory,
/// addresses and host IDs. Returns `None` if the Pod has not started.
pub(crate) async fn stop_after_panic(context: &Context, uid: &str) -> Option<(Record, Leftover)> {
    let directory = context.state.pod(uid).ok()?;
    // A worker writes the record before it creates anything else.
    let record = directory.record()?;
    let (sandbox, containers) = Sandbox::connect(&directory).await.ok().unzip();
    let leftover = Leftover {
        sandbox,
        containers: containers.unwrap_or_default(),
        addresses: record.addresses.clone(),
        users: record.users,
        runs_images: record.runs_images,
        control_groups: record.control_groups.clone(),
    };
    let leftover = stop(context, &record, leftover).await;
    Some((record, leftover))
}

/// Removes everything that an earlier agent or worker left of a Pod.
pub(crate) async fn remove(context: &Context, record: &Record, leftover: Leftover) {
    let is_running = leftover.sandbox.is_some();
    tracing::info!(pod = %record.name, uid = %record.uid, is_running, "leftover Pod removed");
    let leftover = stop(context, record, leftover).await;
    context.release(&leftover.addresses, leftover.users.map(|users| users.ids));
    let removed = match context.state.pod(&record.uid) {
        Ok(directory) => directory.remove_on_thread().await,
        Err(error) => Err(error),
    };
    if let Err(error) = removed {
        tracing::error!(uid = %record.uid, %error, "leftover directory not removed");
    }
}

/// Ends the processes of a Pod, and removes its network. Its directory, addresses and host IDs stay.
async fn stop(context: &Context, record: &Record, mut leftover: Leftover) -> Leftover {
    if let Some(sandbox) = leftover.sandbox.take()
        && let Err(error) = sandbox.kill().await
    {
        tracing::error!(uid = %record.uid, %error, "leftover sandbox not killed");
    }
    cgroups::remove_groups(&leftover.control_groups);
    context.remove_host_ports(&record.uid).await;
    context.remove_cgroups(&record.uid);
    context.release_images(&record.uid).await;
    let disconnected = network::link_name(&record.uid).and_then(|link| network::disconnect(&link));
    if let Err(error) = disconnected {
        tracing::error!(uid = %record.uid, %error, "leftover link not deleted");
    }
    leftover
}
