//! Event loop around the election. Inputs are probes, resolution requests, API events and time; outputs are messages,
//! frames, writes and Events.

mod announcer;
mod conntrack;
mod effects;
mod egress;
mod forwarding;
mod membership;
mod probes;
mod reporter;
mod served_addresses;
mod standby;
mod standing_report;

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use api::object::{Node, Resource};
use client::Client;
use tokio::sync::watch;

use crate::caches::Caches;
use crate::l2::links::LinkSelection;
use crate::metrics::Metrics;
use announcer::Announcer;

/// Delay between two attempts to read this Node.
const NODE_RETRY_PERIOD: Duration = Duration::from_secs(1);

/// Settings of an announcer.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the Node of this process.
    pub node_name: String,
    /// IP address for probes of other nodes; the Node's first InternalIP if `None`.
    pub node_ip: Option<IpAddr>,
    /// UDP port of the probes, equal on all nodes.
    pub port: u16,
    /// Wait while another process has the port: it is the predecessor of this one.
    pub waits_for_port: bool,
    /// Links that addresses are announced on, unless their AddressPools name others.
    pub links: LinkSelection,
    /// Namespace of MetalLB's objects; `None` to ignore them.
    pub metallb_namespace: Option<String>,
    /// Announce from nodes with the label `node.kubernetes.io/exclude-from-external-load-balancers` (LBM-18).
    pub ignores_exclude_label: bool,
    /// Addresses that the edge of this process serves; `None` without an edge. An address of an edge Service is
    /// announced only while the edge serves it. With an edge, the announcer restricts ARP replies of the kernel.
    /// Otherwise the kernel would answer for local addresses while this process is frozen.
    pub served: Option<watch::Receiver<Arc<BTreeSet<IpAddr>>>>,
}

/// Error of the start of an announcer.
#[derive(Debug, thiserror::Error)]
pub enum AnnouncerError {
    /// Another process uses the port, or the address is not local. A retry may succeed.
    #[error(
        "failed to listen for probes at UDP {address}: {source}; check for another announcer and for the address"
    )]
    Listen {
        /// Address of the socket.
        address: SocketAddr,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The kernel provides no random numbers.
    #[error("the kernel provides no random numbers")]
    Random,
}

/// Announces addresses until `shutdown` resolves. Then it hands the addresses over to other nodes, within a time limit.
///
/// # Errors
/// Returns an error if the socket for probes cannot be opened, or without random numbers.
pub async fn run(
    client: Client,
    settings: Settings,
    metrics: Arc<Metrics>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), AnnouncerError> {
    tokio::pin!(shutdown);
    // The lists arrive while the address of the node is read.
    let caches = Caches::start(&client, &settings);
    let node_ip = match settings.node_ip {
        Some(address) => address,
        None => tokio::select! {
            () = &mut shutdown => return Ok(()),
            address = internal_ip(&client, &settings.node_name) => address,
        },
    };
    let mut announcer = tokio::select! {
        () = &mut shutdown => return Ok(()),
        started = Announcer::start(client, settings, caches, node_ip, metrics) => started?,
    };
    let steps = async {
        loop {
            announcer.step().await;
        }
    };
    tokio::select! {
        () = &mut shutdown => {}
        () = steps => {}
    }
    announcer.shut_down().await;
    Ok(())
}

/// Waits for the first InternalIP of a Node.
async fn internal_ip(client: &Client, node_name: &str) -> IpAddr {
    let path = format!("{}/{node_name}", Node::collection(None));
    loop {
        match client.get::<Node>(&path).await {
            Ok(node) => {
                let mut addresses = node.status.addresses.iter();
                let internal = addresses.find_map(|address| {
                    let address = (address.kind == "InternalIP").then_some(&address.address)?;
                    address.parse().ok()
                });
                if let Some(address) = internal {
                    return address;
                }
                tracing::info!(node_name, "Node without InternalIP");
            }
            Err(error) => tracing::warn!(node_name, %error, "Node not read"),
        }
        tokio::time::sleep(NODE_RETRY_PERIOD).await;
    }
}
