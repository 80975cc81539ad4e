//! Registration of the Node, and the Pod ranges of the node. An agent that knows its Pod ranges starts its Pods before
//! it reaches the API server.

use std::net::IpAddr;

use client::Client;
use ipnet::IpNet;
use tokio::sync::oneshot;

use crate::node;
use crate::pods::state_directory::StateDirectory;
use crate::settings::Settings;

/// Returns the Pod ranges that may be used before the registration. They are the ranges of the last run, or the
/// configured ones, so that static Pods need not wait.
pub(crate) fn known_pod_cidrs(settings: &Settings, state: &StateDirectory) -> Vec<IpNet> {
    let stored = state.pod_cidrs();
    if stored.is_empty() && settings.static_pods.is_some() {
        return settings.pod_cidrs.clone();
    }
    stored
}

/// Joins values with commas, as flags have them.
fn join_with_commas<T: ToString>(values: &[T]) -> String {
    let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
    texts.join(",")
}

/// Registers the Node and waits for its Pod ranges. Stores them for the next agent.
pub(crate) async fn register(
    client: &Client,
    settings: &Settings,
    host_ips: &[IpAddr],
    state: &StateDirectory,
) -> Vec<IpNet> {
    node::register(client, settings, host_ips).await;
    let pod_cidrs = node::wait_for_pod_cidrs(client, &settings.node_name).await;
    tracing::info!(
        node = settings.node_name,
        pod_cidrs = join_with_commas(&pod_cidrs),
        addresses = join_with_commas(host_ips),
        "Node registered"
    );
    if let Err(error) = state.write_pod_cidrs(&pod_cidrs) {
        tracing::warn!(%error, "podCIDRs of the Node not stored for a start without the API");
    }
    pod_cidrs
}

/// Registers the Node of an agent that already uses the Pod ranges `used`, and reports the ranges of the Node if they
/// differ. Then renews the Lease as long as it is polled.
pub(crate) async fn register_in_background(
    client: Client,
    settings: Settings,
    host_ips: Vec<IpAddr>,
    state: StateDirectory,
    used: Vec<IpNet>,
    changed: oneshot::Sender<Vec<IpNet>>,
) {
    let pod_cidrs = register(&client, &settings, &host_ips, &state).await;
    if pod_cidrs != used && changed.send(pod_cidrs).is_err() {
        tracing::debug!("agent exited before its Node had podCIDRs");
    }
    node::heartbeat(client, settings, host_ips).await;
}
