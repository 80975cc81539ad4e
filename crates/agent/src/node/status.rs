//! Status of the Node: addresses, capacity, conditions (kubelet's `pkg/kubelet/nodestatus`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;

use ::images::ImageStore;
use api::object::Node;
use client::{Client, ClientError, STRATEGIC_PATCH};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::host::node_info;
use super::node_path;
use crate::containers::environment::Capacity;
use crate::object::rfc3339::whole_seconds;
use crate::settings::Settings;

/// Maximum number of images in the status (upstream's `nodeStatusMaxImages`).
const IMAGES_MAX: usize = 50;
/// Maximum number of names of one image in the status (upstream's `MaxNamesPerImageInNodeStatus`), with those by
/// digest.
const NAMES_MAX: usize = 5;

/// Reads the Node and writes its status.
///
/// # Errors
/// Errors of the requests.
pub(super) async fn write_status(
    client: &Client,
    settings: &Settings,
    ips: &[IpAddr],
) -> Result<(), ClientError> {
    let node: Node = client.get(&node_path(settings)).await?;
    patch_status(client, settings, ips, node.is_ready()).await
}

/// Writes the status of a Node. `was_ready` is true if the Node is ready before.
///
/// # Errors
/// Errors of the request.
pub(super) async fn patch_status(
    client: &Client,
    settings: &Settings,
    ips: &[IpAddr],
    was_ready: bool,
) -> Result<(), ClientError> {
    let mut status = current_status(settings, ips, was_ready).await;
    // By default a strategic merge patch would keep earlier addresses.
    if let Some(addresses) = status["addresses"].as_array_mut() {
        addresses.insert(0, json!({"$patch": "replace"}));
    }
    let path = format!("{}/status", node_path(settings));
    client
        .request(
            Method::PATCH,
            &path,
            STRATEGIC_PATCH,
            Some(&json!({"status": status})),
        )
        .await
        .map(drop)
}

/// Returns the status with the images of the node. The transition times of a ready Node are absent.
pub(super) async fn current_status(settings: &Settings, ips: &[IpAddr], was_ready: bool) -> Value {
    let mut status = status(settings, ips, was_ready, Timestamp::now());
    if let Some(images) = &settings.image_store {
        status["images"] = images_of(images.store.clone()).await;
    }
    status
}

/// Returns the images of the node, the largest first. As upstream's, a store that cannot be read gives an empty list.
async fn images_of(store: ImageStore) -> Value {
    let listed = tokio::task::spawn_blocking(move || store.list()).await;
    let summaries = match listed {
        Ok(Ok(summaries)) => summaries,
        Ok(Err(error)) => {
            tracing::warn!(%error, "images of the node not listed");
            Vec::new()
        }
        Err(_) => Vec::new(),
    };
    let mut by_id = BTreeMap::<_, (u64, BTreeSet<String>)>::new();
    for summary in summaries {
        let (size_bytes, names) = by_id.entry(summary.id).or_default();
        *size_bytes = summary.size_bytes;
        if names.len() < NAMES_MAX {
            names.insert(summary.reference.at_digest(summary.digest).to_string());
            names.insert(summary.reference.to_string());
        }
    }
    let mut images: Vec<_> = by_id.into_values().collect();
    images.sort_by_key(|(size_bytes, _)| std::cmp::Reverse(*size_bytes));
    images.truncate(IMAGES_MAX);
    let images = images.into_iter();
    images
        .map(|(size_bytes, names)| json!({"names": names, "sizeBytes": size_bytes}))
        .collect()
}

/// Returns the status without images. The transition times of a ready Node are absent, so a patch keeps them.
pub(super) fn status(settings: &Settings, ips: &[IpAddr], was_ready: bool, now: Timestamp) -> Value {
    let now = whole_seconds(now);
    let condition = |kind: &str, is_true: bool, reason: &str, message: &str| {
        let mut condition = json!({
            "type": kind,
            "status": if is_true { "True" } else { "False" },
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
        });
        // Without the field in the patch, the present transition time stays.
        if !was_ready {
            condition["lastTransitionTime"] = now.as_str().into();
        }
        condition
    };
    let addresses = ips.iter();
    let mut addresses: Vec<Value> = addresses
        .map(|ip| json!({"type": "InternalIP", "address": ip.to_string()}))
        .collect();
    addresses.push(json!({"type": "Hostname", "address": settings.node_name}));
    let Capacity { cpus, memory_bytes } = capacity();
    let capacity = json!({
        "pods": settings.pods_max.to_string(),
        "cpu": cpus.to_string(),
        "memory": format!("{}Ki", memory_bytes / 1024),
    });
    // Port of the endpoint for the API server; 0 without an endpoint.
    let port = settings.server.as_ref().map_or(0, |server| server.listen.port());
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
        "nodeInfo": node_info(Path::new("/")),
    })
}

/// Returns the capacity of this host.
pub(crate) fn capacity() -> Capacity {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    Capacity {
        cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64),
        memory_bytes: kib.unwrap_or(0) * 1024,
    }
}

/// Returns the architecture in the names of Kubernetes.
pub(super) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
