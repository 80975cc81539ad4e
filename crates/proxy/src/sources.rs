//! Sources of updates: watches of the API, and addresses of this node. Each one is a task.
//!
//! Servers since 1.24 are supported, and features of later ones are detected. Without the field selector of Services
//! (1.31) the proxy reads all Services. Without ServiceCIDRs (1.33) it has none.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use api::object::{EndpointSlice, Node, Resource, Service, ServiceCidr};
use client::{Client, ClientError, Event, Query, Watch};
use netlink::nftables::Monitor;
use tokio::sync::mpsc::{Sender, WeakSender};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::Config;
use crate::node;
use crate::worker::Update;

/// Services of this proxy: not for another proxy, and not headless (KPR-01, API-48). Servers before 1.31 lack the
/// field; the plan ignores headless Services (KPR-11).
const SERVICE_LABELS: &str = "!service.kubernetes.io/service-proxy-name";
const SERVICE_FIELDS: &str = "spec.clusterIP!=None";
/// Slices of Services with a cluster IP (KPR-01, API-49). The label of another proxy on a slice has no effect: only the
/// Service assigns it.
const SLICE_LABELS: &str = "!service.kubernetes.io/headless";
/// Period of reading this node's addresses: the maximum delay before node ports answer on a new one.
const ADDRESS_PERIOD: Duration = Duration::from_secs(10);
/// Period in which the monitor thread checks that it is still needed.
const MONITOR_PERIOD: Duration = Duration::from_secs(1);
/// Time after the start in which rules wait for ServiceCIDRs. No Service needs them.
const SERVICE_CIDRS_WAIT_MAX: Duration = Duration::from_secs(10);
/// Pauses between attempts to read ServiceCIDRs while the server fails: the first, doubled up to the maximum.
const FAILURE_PAUSE_MIN: Duration = Duration::from_secs(1);
const FAILURE_PAUSE_MAX: Duration = Duration::from_secs(30);
/// Pauses between attempts on a server without ServiceCIDRs. The first pause is for a server that still creates its
/// roles. The pause doubles up to the maximum, within which the proxy detects an upgrade of the server.
const ABSENCE_PAUSE_MIN: Duration = Duration::from_secs(10);
const ABSENCE_PAUSE_MAX: Duration = Duration::from_secs(300);

/// Starts all sources. They end when the set is dropped or the receiver of the queue is dropped.
pub(crate) fn start(
    client: &Client,
    node_name: &str,
    own_addresses: Vec<IpAddr>,
    updates: &Sender<Update>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let query = |labels: &str, fields: &str| Query {
        namespace: None,
        label_selector: labels.to_owned(),
        field_selector: fields.to_owned(),
    };
    let services = query(SERVICE_LABELS, SERVICE_FIELDS);
    tasks.spawn(forward::<Service>(
        client::watch(client, services).with_optional_field_selector(),
        |event| Update::Service(Box::new(event)),
        updates.clone(),
    ));
    let slices = query(SLICE_LABELS, "");
    tasks.spawn(forward::<EndpointSlice>(
        client::watch(client, slices),
        Update::Slice,
        updates.clone(),
    ));
    let own_node = query("", &format!("metadata.name={node_name}"));
    tasks.spawn(forward::<Node>(
        client::watch(client, own_node),
        |event| Update::Node(Box::new(event)),
        updates.clone(),
    ));
    tasks.spawn(watch_service_cidrs(client.clone(), updates.clone()));
    tasks.spawn(end_wait_for_service_cidrs(updates.clone()));
    tasks.spawn(watch_addresses(own_addresses, updates.clone()));
    tasks
}

/// Watches all Nodes once they are needed: for two-tier forwarding.
pub(crate) async fn watch_cluster_nodes(
    client: Client,
    mut is_needed: watch::Receiver<bool>,
    updates: Sender<Update>,
) {
    if is_needed.wait_for(|is_needed| *is_needed).await.is_err() {
        return;
    }
    let watch = client::watch(&client, Query::default());
    forward::<Node>(watch, |event| Update::ClusterNode(Box::new(event)), updates).await;
}

async fn forward<T: Resource>(mut watch: Watch<T>, wrap: fn(Event<T>) -> Update, updates: Sender<Update>) {
    loop {
        if updates.send(wrap(watch.next().await)).await.is_err() {
            return;
        }
    }
}

/// Sends external changes from a thread that waits for the kernel. The thread ends after all other sources.
pub(crate) fn watch_external_changes(mut monitor: Monitor, updates: WeakSender<Update>) -> io::Result<()> {
    let watch = move || {
        while updates.strong_count() > 0 {
            let changes = match monitor.wait(MONITOR_PERIOD) {
                Ok(true) => monitor.read(),
                Ok(false) => continue,
                Err(error) => Err(error),
            };
            match changes {
                Ok(changes) if changes.is_empty() => {}
                Ok(changes) => {
                    let Some(updates) = updates.upgrade() else { return };
                    if updates.blocking_send(Update::ExternalChanges(changes)).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "external changes not reported; periodic repairs find them");
                    return;
                }
            }
        }
    };
    let thread = std::thread::Builder::new().name("proxy-watch".to_owned());
    thread.spawn(watch).map(drop)
}

/// Sends changes of the configuration. Ends when the sender is dropped.
pub(crate) async fn forward_configs(mut configs: watch::Receiver<Config>, updates: Sender<Update>) {
    while configs.changed().await.is_ok() {
        let config = Box::new(configs.borrow_and_update().clone());
        if updates.send(Update::Config(config)).await.is_err() {
            return;
        }
    }
}

/// Watches ServiceCIDRs once the server has them and grants them. Until then the proxy works without them (KPR-05).
async fn watch_service_cidrs(client: Client, updates: Sender<Update>) {
    let probe = format!("{}?limit=1", ServiceCidr::collection(None));
    let mut absence_pause = None;
    let mut failure_pause = FAILURE_PAUSE_MIN;
    while let Err(error) = client.get::<serde::de::IgnoredAny>(&probe).await {
        if !is_absence(&error) {
            tracing::warn!(%error, pause = ?failure_pause, "ServiceCIDRs not read; retrying");
            tokio::time::sleep(failure_pause).await;
            failure_pause = (failure_pause * 2).min(FAILURE_PAUSE_MAX);
            continue;
        }
        let pause = absence_pause.map_or(ABSENCE_PAUSE_MIN, |pause: Duration| {
            (pause * 2).min(ABSENCE_PAUSE_MAX)
        });
        if absence_pause.replace(pause).is_none() {
            tracing::warn!(%error, "no ServiceCIDRs; packets to unassigned cluster IPs are not dropped");
            if updates.send(Update::ServiceCidrsNotAwaited).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(pause).await;
    }
    if absence_pause.is_some() {
        tracing::info!("ServiceCIDRs found");
    }
    let watch = client::watch(&client, Query::default());
    forward::<ServiceCidr>(watch, Update::ServiceCidr, updates).await;
}

/// Permits the worker to write rules without ServiceCIDRs: the server fails, or some servers of the cluster lack them
/// during an upgrade.
async fn end_wait_for_service_cidrs(updates: Sender<Update>) {
    tokio::time::sleep(SERVICE_CIDRS_WAIT_MAX).await;
    // The receiver is dropped when the proxy exits.
    updates.send(Update::ServiceCidrsNotAwaited).await.ok();
}

/// Returns true if a retry does not help before an upgrade of the server or a change of a role. Authorization comes
/// before the path: a role from before 1.33 gets 403 from a server without the kind.
fn is_absence(error: &ClientError) -> bool {
    matches!(error.code(), Some(400 | 403 | 404))
}

/// Reads this node's addresses periodically and sends changes.
async fn watch_addresses(mut known: Vec<IpAddr>, updates: Sender<Update>) {
    loop {
        tokio::time::sleep(ADDRESS_PERIOD).await;
        match node::own_addresses() {
            Ok(own) if own == known => {}
            Ok(own) => {
                known.clone_from(&own);
                if updates.send(Update::Addresses(own)).await.is_err() {
                    return;
                }
            }
            Err(error) => tracing::warn!(%error, "addresses of this node not read"),
        }
    }
}

#[cfg(test)]
mod tests;
