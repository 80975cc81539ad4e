//! Sources of updates: watches of the API, and addresses of this node. Each one is a task.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use api::object::{EndpointSlice, Node, Resource, Service, ServiceCidr};
use client::{Client, Event, Query};
use netlink::nftables::Monitor;
use tokio::sync::mpsc::{Sender, WeakSender};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::Config;
use crate::node;
use crate::worker::Update;

/// Services of this proxy: not for another proxy, and not headless (KPR-01, API-48).
const SERVICE_LABELS: &str = "!service.kubernetes.io/service-proxy-name";
const SERVICE_FIELDS: &str = "spec.clusterIP!=None";
/// Slices of this proxy (API-48, API-49).
const SLICE_LABELS: &str = "!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name";
/// Period of reading this node's addresses: the maximum delay before node ports answer on a new one.
const ADDRESS_PERIOD: Duration = Duration::from_secs(10);
/// Period in which the monitor thread checks that it is still needed.
const MONITOR_PERIOD: Duration = Duration::from_secs(1);
/// Pause between attempts to detect whether the API has ServiceCIDRs.
const PROBE_PERIOD: Duration = Duration::from_secs(1);

/// Starts all sources. They end when the set is dropped or the receiver of the queue is gone.
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
        client.clone(),
        services,
        |event| Update::Service(Box::new(event)),
        updates.clone(),
    ));
    let slices = query(SLICE_LABELS, "");
    tasks.spawn(forward::<EndpointSlice>(
        client.clone(),
        slices,
        Update::Slice,
        updates.clone(),
    ));
    let own_node = query("", &format!("metadata.name={node_name}"));
    tasks.spawn(forward::<Node>(
        client.clone(),
        own_node,
        |event| Update::Node(Box::new(event)),
        updates.clone(),
    ));
    tasks.spawn(service_cidrs(client.clone(), updates.clone()));
    tasks.spawn(addresses(own_addresses, updates.clone()));
    tasks
}

async fn forward<T: Resource>(
    client: Client,
    query: Query,
    wrap: fn(Event<T>) -> Update,
    updates: Sender<Update>,
) {
    let mut watch = client::watch::<T>(&client, query);
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
pub(crate) async fn configs(mut configs: watch::Receiver<Config>, updates: Sender<Update>) {
    while configs.changed().await.is_ok() {
        let config = Box::new(configs.borrow_and_update().clone());
        if updates.send(Update::Config(config)).await.is_err() {
            return;
        }
    }
}

/// Watches ServiceCIDRs if the API has them.
async fn service_cidrs(client: Client, updates: Sender<Update>) {
    let probe = format!("{}?limit=1", ServiceCidr::collection(None));
    loop {
        match client.get::<serde::de::IgnoredAny>(&probe).await {
            Ok(_) => break,
            Err(error) if error.is_not_found() => {
                tracing::info!("API without ServiceCIDRs; packets to unassigned cluster IPs are not dropped");
                if updates.send(Update::NoServiceCidrs).await.is_err() {
                    return;
                }
                return std::future::pending().await;
            }
            Err(error) => {
                tracing::debug!(%error, "probe for ServiceCIDRs failed");
                tokio::time::sleep(PROBE_PERIOD).await;
            }
        }
    }
    forward::<ServiceCidr>(client, Query::default(), Update::ServiceCidr, updates).await;
}

/// Reads this node's addresses periodically and sends changes.
async fn addresses(mut known: Vec<IpAddr>, updates: Sender<Update>) {
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
