//! Making this node known, and finding out which addresses its Pods have. An agent that knows them from before starts
//! at once, with or without the API.

use std::net::IpAddr;

use client::Client;
use ipnet::IpNet;
use tokio::sync::oneshot;

use crate::node;
use crate::settings::Settings;
use crate::state_directory::StateDirectory;

/// The ranges that may be used before the Node is registered: those that it had last, or, where static Pods are not to
/// wait, those that it is going to ask for.
pub fn known_ranges(settings: &Settings, state: &StateDirectory) -> Vec<IpNet> {
    let kept = state.ranges();
    if kept.is_empty() && settings.static_pods.is_some() {
        return settings.pod_cidrs.clone();
    }
    kept
}

/// Registers the Node; its ranges, as soon as it has some. They are kept for the next agent.
pub async fn register(
    client: &Client,
    settings: &Settings,
    host_ips: &[IpAddr],
    state: &StateDirectory,
) -> Vec<IpNet> {
    node::register(client, settings, host_ips).await;
    let ranges = node::pod_cidrs(client, &settings.node_name).await;
    tracing::info!(node = settings.node_name, podCIDRs = ?ranges, addresses = ?host_ips, "registered");
    if let Err(error) = state.keep_ranges(&ranges) {
        tracing::warn!(%error, "an agent that starts without the API will not know the Node's podCIDRs");
    }
    ranges
}

/// Registers the Node whose Pods have addresses of `used` already, and says if those are not the Node's. Then renews
/// its Lease for as long as it is polled.
pub async fn register_behind(
    client: Client,
    settings: Settings,
    host_ips: Vec<IpAddr>,
    state: StateDirectory,
    used: Vec<IpNet>,
    changed: oneshot::Sender<Vec<IpNet>>,
) {
    let ranges = register(&client, &settings, &host_ips, &state).await;
    if ranges != used && changed.send(ranges).is_err() {
        tracing::debug!("the agent ended before it heard of its Node's podCIDRs");
    }
    node::heartbeat(client, settings, host_ips).await;
}
