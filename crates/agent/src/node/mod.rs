//! The Node object of this machine, and its heartbeats.

use std::net::IpAddr;
use std::time::Duration;

use api::object::{Node, Resource};
use client::{Client, ClientError, Event, MERGE_PATCH, Query, STRATEGIC_PATCH};
use http::Method;
use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::environment::Capacity;
use crate::settings::Settings;
use crate::status::seconds;

#[cfg(test)]
mod tests;

/// Where the leases of nodes are.
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// Events of the one Node that wait while its lease is renewed.
const NODE_EVENTS_WAITING_MAX: usize = 16;
/// How often the status is written though nothing changed (upstream's `nodeStatusReportFrequency`).
const STATUS_INTERVAL: Duration = Duration::from_secs(300);
/// The pause after a failure; it doubles up to the maximum.
const BACK_OFF_MIN: Duration = Duration::from_millis(200);
/// The longest pause: a Node is heard again this soon after the API is.
const BACK_OFF_MAX: Duration = Duration::from_secs(2);

/// Makes the Node exist, with its labels, Pod ranges and status; tries until that is so. Where the API lets no node choose
/// its ranges, the Node is registered without them.
pub async fn register(client: &Client, settings: &Settings, ips: &[IpAddr]) {
    retry("registering the Node", || async {
        match create_or_update(client, settings, &settings.pod_cidrs).await {
            Err(error) if error.is_forbidden() && !settings.pod_cidrs.is_empty() => {
                tracing::info!(%error, "registering the Node without --pod-cidr");
                create_or_update(client, settings, &[]).await?;
            }
            other => other?,
        }
        write_status(client, settings, ips).await
    })
    .await;
}

async fn create_or_update(
    client: &Client,
    settings: &Settings,
    pod_cidrs: &[IpNet],
) -> Result<(), ClientError> {
    let node = object(settings, pod_cidrs);
    match create(client, "/api/v1/nodes", &node).await {
        Err(error) if error.is_conflict() => update(client, settings, &node).await,
        other => other.map(drop),
    }
}

/// The Node's own Pod ranges, as soon as it has some. Malformed ones are logged and waited past.
pub async fn pod_cidrs(client: &Client, node_name: &str) -> Vec<IpNet> {
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
                tracing::info!("waiting for the Node's podCIDRs");
            }
            Event::Malformed { error, .. } => tracing::warn!(error, "unreadable Node"),
            _ => {}
        }
    }
}

/// Renews the lease and the status for as long as it is polled. When somebody says of the Node that it is not
/// ready, which this agent never does, the status is written at once: so it is back as soon as it is heard again.
pub async fn heartbeat(client: Client, settings: Settings, ips: Vec<IpAddr>) {
    let query = Query {
        field_selector: format!("metadata.name={}", settings.node_name),
        ..Query::default()
    };
    let mut nodes = client::watch::<Node>(&client, query).into_channel(NODE_EVENTS_WAITING_MAX);
    let mut status_due = tokio::time::Instant::now() + STATUS_INTERVAL;
    loop {
        retry("renewing the Node's lease", || renew_lease(&client, &settings)).await;
        let renewal = tokio::time::sleep(settings.node_lease_duration / 4);
        tokio::pin!(renewal);
        loop {
            let is_due = tokio::select! {
                () = &mut renewal => break,
                () = tokio::time::sleep_until(status_due) => true,
                Some(event) = nodes.recv() => matches!(event, Event::Applied(node) if !node.is_ready()),
            };
            if is_due {
                retry("writing the Node's status", || {
                    write_status(&client, &settings, &ips)
                })
                .await;
                status_due = tokio::time::Instant::now() + STATUS_INTERVAL;
            }
        }
    }
}

/// The ranges that a Node gives its Pods.
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
                .inspect_err(|error| tracing::warn!(podCIDR = %text, %error, "unreadable podCIDR"))
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

/// Brings a Node that was there before up to date. Pod ranges are written only where it has none: Pods may
/// have addresses of the old ones.
async fn update(client: &Client, settings: &Settings, wanted: &Value) -> Result<(), ClientError> {
    let path = format!("/api/v1/nodes/{}", settings.node_name);
    let node: Node = client.get(&path).await?;
    let mut patch = json!({"metadata": {"labels": wanted["metadata"]["labels"]}});
    let present = ranges(&node);
    if present.is_empty() {
        // Taints are for the Node's first registration.
        if let Some(spec) = wanted.get("spec").filter(|spec| !spec["podCIDR"].is_null()) {
            patch["spec"] = json!({"podCIDR": spec["podCIDR"], "podCIDRs": spec["podCIDRs"]});
        }
    } else if !settings.pod_cidrs.is_empty() && present != settings.pod_cidrs {
        tracing::warn!(node = ?present, configured = ?settings.pod_cidrs, "the Node keeps its podCIDRs");
    }
    client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
        .await
        .map(drop)
}

async fn write_status(client: &Client, settings: &Settings, ips: &[IpAddr]) -> Result<(), ClientError> {
    let path = format!("/api/v1/nodes/{}/status", settings.node_name);
    let node: Node = client
        .get(&format!("/api/v1/nodes/{}", settings.node_name))
        .await?;
    let was_ready = node.is_ready();
    let patch = json!({"status": status(settings, ips, was_ready, Timestamp::now())});
    client
        .request(Method::PATCH, &path, STRATEGIC_PATCH, Some(&patch))
        .await
        .map(drop)
}

fn status(settings: &Settings, ips: &[IpAddr], was_ready: bool, now: Timestamp) -> Value {
    let now = seconds(now);
    let condition = |kind: &str, holds: bool, reason: &str, message: &str| {
        let mut condition = json!({
            "type": kind,
            "status": if holds { "True" } else { "False" },
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
        });
        // Left out of the patch, the time of the last change stays.
        if !was_ready {
            condition["lastTransitionTime"] = now.as_str().into();
        }
        condition
    };
    // Without the first entry the list would be merged, and addresses of before stay.
    let mut addresses = vec![json!({"$patch": "replace"})];
    addresses.extend(
        ips.iter()
            .map(|ip| json!({"type": "InternalIP", "address": ip.to_string()})),
    );
    addresses.push(json!({"type": "Hostname", "address": settings.node_name}));
    let Capacity { cpus, memory_bytes } = capacity();
    let capacity = json!({
        "pods": settings.pods_max.to_string(),
        "cpu": cpus.to_string(),
        "memory": format!("{}Ki", memory_bytes / 1024),
    });
    // Where the API server asks for logs; 0 stands for nowhere.
    let port = settings
        .serving
        .as_ref()
        .map_or(0, |serving| serving.listen.port());
    json!({
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "addresses": addresses,
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": [
            condition("MemoryPressure", false, "KubeletHasSufficientMemory", "agent has sufficient memory available"),
            condition("DiskPressure", false, "KubeletHasNoDiskPressure", "agent has no disk pressure"),
            condition("PIDPressure", false, "KubeletHasSufficientPID", "agent has sufficient PID available"),
            condition("Ready", true, "KubeletReady", "agent is posting ready status"),
        ],
        "nodeInfo": {
            "operatingSystem": "linux",
            "architecture": architecture(),
            "kubeletVersion": concat!("portolan/", env!("CARGO_PKG_VERSION")),
            "containerRuntimeVersion": "process://1",
            "kernelVersion": rustix::system::uname().release().to_string_lossy(),
        },
    })
}

async fn renew_lease(client: &Client, settings: &Settings) -> Result<(), ClientError> {
    let node_name = &settings.node_name;
    let collection = format!("/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases");
    let path = format!("{collection}/{node_name}");
    let spec = json!({
        "holderIdentity": node_name,
        "leaseDurationSeconds": settings.node_lease_duration.as_secs().max(1),
        "renewTime": microseconds(Timestamp::now()),
    });
    let patch = json!({"spec": spec});
    match client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
        .await
    {
        Err(error) if error.is_not_found() => {}
        other => return other.map(drop),
    }
    let lease = json!({
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": node_name, "namespace": LEASE_NAMESPACE},
        "spec": spec,
    });
    match create(client, &collection, &lease).await {
        Err(error) if error.is_not_found() => {}
        other => return other.map(drop),
    }
    let namespace = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": LEASE_NAMESPACE}});
    match create(client, "/api/v1/namespaces", &namespace).await {
        Err(error) if !error.is_conflict() => return Err(error),
        _ => {}
    }
    create(client, &collection, &lease).await.map(drop)
}

/// A time with six digits after the second, as `MicroTime` wants it.
fn microseconds(time: Timestamp) -> String {
    format!("{time:.6}")
}

/// What this machine has.
pub fn capacity() -> Capacity {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    Capacity {
        cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64),
        memory_bytes: kib.unwrap_or(0) * 1024,
    }
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Tries until it succeeds, with growing pauses.
async fn retry<F: Future<Output = Result<(), ClientError>>>(what: &str, attempt: impl Fn() -> F) {
    let mut pause = BACK_OFF_MIN;
    while let Err(error) = attempt().await {
        tracing::warn!(%error, "{what}");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(BACK_OFF_MAX);
    }
}

async fn create(client: &Client, collection: &str, object: &Value) -> Result<Value, ClientError> {
    client
        .request(Method::POST, collection, client::JSON, Some(object))
        .await
}
