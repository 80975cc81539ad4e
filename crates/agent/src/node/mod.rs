//! Node object of this node: registration and heartbeats (kubelet's `kubelet_node_status.go`).

mod host;
mod lease;
pub(crate) mod registration;
mod status;

use std::net::IpAddr;
use std::time::Duration;

use api::object::{Node, Resource};
use client::{Client, ClientError, Event, MERGE_PATCH, Query};
use http::Method;
use ipnet::IpNet;
use serde_json::{Value, json};

use crate::settings::Settings;

use lease::renew_lease;
use status::{architecture, current_status, patch_status, write_status};

pub(crate) use status::capacity;

#[cfg(test)]
mod tests;

/// Maximum number of Events of the Node that wait while the Lease is renewed.
const NODE_EVENTS_WAITING_MAX: usize = 16;
/// Interval at which an unchanged status is written (upstream's `nodeStatusReportFrequency`).
const STATUS_INTERVAL: Duration = Duration::from_secs(300);
/// Delay after the first failure; it doubles up to the maximum.
const BACK_OFF_MIN: Duration = Duration::from_millis(200);
/// Longest delay: a Node is healthy again this soon after the API server is.
const BACK_OFF_MAX: Duration = Duration::from_secs(2);

/// Creates or updates the Node with its labels, Pod ranges and status. Retries until it succeeds. If the API server
/// forbids the node to choose its Pod ranges, the Node is registered without them.
pub(crate) async fn register(client: &Client, settings: &Settings, ips: &[IpAddr]) {
    retry("Node not registered", || async {
        let existing = match create_or_update(client, settings, ips, &settings.pod_cidrs).await {
            Err(error) if error.is_forbidden() && !settings.pod_cidrs.is_empty() => {
                tracing::info!(%error, "Node registered without --pod-cidr");
                create_or_update(client, settings, ips, &[]).await?
            }
            other => other?,
        };
        match existing {
            Some(node) => patch_status(client, settings, ips, node.is_ready()).await,
            // A new Node has its status.
            None => Ok(()),
        }
    })
    .await;
}

/// Creates the Node with its status, or updates an existing one without its status. Returns the existing Node.
async fn create_or_update(
    client: &Client,
    settings: &Settings,
    ips: &[IpAddr],
    pod_cidrs: &[IpNet],
) -> Result<Option<Node>, ClientError> {
    let mut desired = object(settings, pod_cidrs);
    let path = node_path(settings);
    let existing: Node = match client.get(&path).await {
        Err(error) if error.is_not_found() => {
            desired["status"] = current_status(settings, ips, false).await;
            match create(client, "/api/v1/nodes", &desired).await {
                // Another client created the Node first.
                Err(error) if error.is_conflict() => client.get(&path).await?,
                created => return created.map(|_| None),
            }
        }
        read => read?,
    };
    update(client, settings, &existing, &desired).await?;
    Ok(Some(existing))
}

/// Waits for the Pod ranges of the Node. Malformed ranges are logged and ignored.
pub(crate) async fn wait_for_pod_cidrs(client: &Client, node_name: &str) -> Vec<IpNet> {
    let query = Query {
        field_selector: format!("metadata.name={node_name}"),
        ..Query::default()
    };
    let mut nodes = client::watch::<Node>(client, query);
    loop {
        match nodes.next().await {
            Event::Applied(node) if node.metadata.name == node_name => {
                let ranges = ranges(&node);
                if !ranges.is_empty() {
                    return ranges;
                }
                tracing::info!("Node without podCIDRs; waiting");
            }
            Event::Malformed { error, .. } => tracing::warn!(error, "malformed Node ignored"),
            _ => {}
        }
    }
}

/// Renews the Lease and the status as long as it is polled. If another client marks the Node as not ready, which this
/// agent never does, the status is written at once.
pub(crate) async fn heartbeat(client: Client, settings: Settings, ips: Vec<IpAddr>) {
    let query = Query {
        field_selector: format!("metadata.name={}", settings.node_name),
        ..Query::default()
    };
    let mut nodes = client::watch::<Node>(&client, query).into_channel(NODE_EVENTS_WAITING_MAX);
    let mut status_due = tokio::time::Instant::now() + STATUS_INTERVAL;
    loop {
        retry("Lease of the Node not renewed", || {
            renew_lease(&client, &settings)
        })
        .await;
        let renewal = tokio::time::sleep(settings.node_lease_duration / 4);
        tokio::pin!(renewal);
        loop {
            let is_due = tokio::select! {
                () = &mut renewal => break,
                () = tokio::time::sleep_until(status_due) => true,
                Some(event) = nodes.recv() => {
                    report_deletion(&settings.node_name, &event);
                    matches!(event, Event::Applied(node) if !node.is_ready())
                }
            };
            if is_due {
                retry("status of the Node not written", || {
                    write_status(&client, &settings, &ips)
                })
                .await;
                status_due = tokio::time::Instant::now() + STATUS_INTERVAL;
            }
        }
    }
}

/// Reports that an administrator has deleted the Node. As upstream's, this agent registers at its start only.
fn report_deletion(node_name: &str, event: &Event<Node>) {
    if matches!(event, Event::Deleted(_)) {
        tracing::error!(
            node = node_name,
            "Node deleted; restart this host's portolan to register it again; a joined host needs a new token for that"
        );
    }
}

/// Returns the Pod ranges of a Node.
fn ranges(node: &Node) -> Vec<IpNet> {
    let single = std::iter::once(&node.spec.pod_cidr).filter(|_| node.spec.pod_cidrs.is_empty());
    let texts = node
        .spec
        .pod_cidrs
        .iter()
        .chain(single)
        .filter(|text| !text.is_empty());
    texts
        .filter_map(|text| {
            text.parse()
                .inspect_err(|error| tracing::warn!(podCIDR = %text, %error, "malformed podCIDR ignored"))
                .ok()
        })
        .collect()
}

fn labels(settings: &Settings) -> Value {
    let mut labels = json!({
        "kubernetes.io/hostname": settings.node_name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture(),
    });
    for (key, value) in &settings.node_labels {
        labels[key] = value.as_str().into();
    }
    labels
}

fn object(settings: &Settings, pod_cidrs: &[IpNet]) -> Value {
    let mut node = json!({
        "kind": Node::KIND,
        "apiVersion": Node::VERSION,
        "metadata": {"name": settings.node_name, "labels": labels(settings)},
    });
    if let Some(first) = pod_cidrs.first() {
        let all: Vec<String> = pod_cidrs.iter().map(ToString::to_string).collect();
        node["spec"] = json!({"podCIDR": first.to_string(), "podCIDRs": all});
    }
    if !settings.node_taints.is_empty() {
        node["spec"]["taints"] = json!(settings.node_taints);
    }
    node
}

/// Updates an existing Node. Its Pod ranges stay, because Pods may have addresses of them.
async fn update(
    client: &Client,
    settings: &Settings,
    node: &Node,
    desired: &Value,
) -> Result<(), ClientError> {
    let mut patch = json!({"metadata": {"labels": desired["metadata"]["labels"]}});
    let present = ranges(node);
    if present.is_empty() {
        // Taints apply to the first registration only.
        if let Some(spec) = desired.get("spec").filter(|spec| !spec["podCIDR"].is_null()) {
            patch["spec"] = json!({"podCIDR": spec["podCIDR"], "podCIDRs": spec["podCIDRs"]});
        }
    } else if !settings.pod_cidrs.is_empty() && present != settings.pod_cidrs {
        tracing::warn!(
            node_pod_cidrs = ?present,
            configured_pod_cidrs = ?settings.pod_cidrs,
            "configured Pod ranges ignored; the Node keeps its podCIDRs"
        );
    }
    client
        .request(Method::PATCH, &node_path(settings), MERGE_PATCH, Some(&patch))
        .await
        .map(drop)
}

fn node_path(settings: &Settings) -> String {
    format!("/api/v1/nodes/{}", settings.node_name)
}

/// Retries with back-off until the attempt succeeds.
async fn retry<F: Future<Output = Result<(), ClientError>>>(failure: &str, attempt: impl Fn() -> F) {
    let mut delay = BACK_OFF_MIN;
    while let Err(error) = attempt().await {
        tracing::warn!(%error, failure, "attempt failed; retrying");
        tokio::time::sleep(delay).await;
        delay = (delay * 2).min(BACK_OFF_MAX);
    }
}

async fn create(client: &Client, collection: &str, object: &Value) -> Result<Value, ClientError> {
    client
        .request(Method::POST, collection, client::JSON, Some(object))
        .await
}
