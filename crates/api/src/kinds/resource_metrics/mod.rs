//! The group `metrics.k8s.io`: CPU time and memory that Nodes and Pods use. Its objects are not stored. The agent of a node
//! sends a [`Report`], and the API server builds the objects from it.

mod quantity;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::machinery::tree::{child, is_set, items, text};

pub(crate) use quantity::{cpu_text, memory_text, nanocores, sum_of};

/// API group.
pub const GROUP: &str = "metrics.k8s.io";

/// Version in the group.
pub const VERSION: &str = "v1beta1";

/// CPU time and memory of a node or a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Nanoseconds of CPU time for each second of the window.
    pub cpu_nanocores: u64,
    /// Memory that the kernel cannot reclaim easily: the working set.
    pub memory_bytes: u64,
}

/// Usage of one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerUsage {
    /// Name of the container.
    pub name: String,
    /// Usage in the window of the report.
    pub usage: Usage,
}

/// Usage of one Pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodUsage {
    /// Namespace of the Pod.
    pub namespace: String,
    /// Name of the Pod.
    pub name: String,
    /// UID of the Pod. That of a static Pod differs from the UID of its mirror Pod.
    pub uid: String,
    /// Set for a static Pod.
    #[serde(default)]
    pub is_static: bool,
    /// Running containers that were measured twice.
    pub containers: Vec<ContainerUsage>,
}

/// Usage of a node and its Pods, as its agent measured it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Time of the latest sample, in seconds since 1970.
    pub timestamp_seconds: i64,
    /// Time between the two samples, in milliseconds.
    pub window_milliseconds: u64,
    /// Usage of the whole node.
    pub node: Option<Usage>,
    /// Usage of the Pods.
    pub pods: Vec<PodUsage>,
}

/// Builds the NodeMetrics of a stored Node. Returns `None` if the report does not have its usage.
pub fn node_metrics(node: &Value, report: &Report) -> Option<Value> {
    let usage = report.node?;
    let mut object = header("NodeMetrics", node, report)?;
    object["usage"] = quantities(usage);
    Some(object)
}

/// Builds the PodMetrics of a stored Pod. `report` is that of the Pod's node. Returns `None` if it does not have
/// containers of the Pod, or if the Pod does not run.
pub fn pod_metrics(pod: &Value, report: &Report) -> Option<Value> {
    if text(child(pod, "status"), "phase") != "Running" {
        return None;
    }
    let metadata = child(pod, "metadata");
    let measured = report.pods.iter().find(|measured| {
        measured.namespace == text(metadata, "namespace")
            && measured.name == text(metadata, "name")
            && (measured.is_static || measured.uid == text(metadata, "uid"))
    })?;
    let containers: Vec<Value> = measured
        .containers
        .iter()
        .filter(|container| has_container(pod, &container.name))
        .map(|container| json!({"name": container.name, "usage": quantities(container.usage)}))
        .collect();
    if containers.is_empty() {
        return None;
    }
    let mut object = header("PodMetrics", pod, report)?;
    object["containers"] = containers.into();
    Some(object)
}

/// Returns the object without its usage.
fn header(kind: &str, measured: &Value, report: &Report) -> Option<Value> {
    let timestamp = Timestamp::from_second(report.timestamp_seconds).ok()?.to_string();
    let source = child(measured, "metadata");
    let mut metadata = json!({"name": text(source, "name")});
    if is_set(source, "namespace") {
        metadata["namespace"] = text(source, "namespace").into();
    }
    metadata["creationTimestamp"] = timestamp.as_str().into();
    if is_set(source, "labels") {
        metadata["labels"] = child(source, "labels").clone();
    }
    Some(json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": kind,
        "metadata": metadata,
        "timestamp": timestamp,
        "window": duration_text(report.window_milliseconds),
    }))
}

fn has_container(pod: &Value, name: &str) -> bool {
    let spec = child(pod, "spec");
    ["containers", "initContainers", "ephemeralContainers"]
        .iter()
        .flat_map(|field| items(spec, field))
        .any(|container| text(container, "name") == name)
}

fn quantities(usage: Usage) -> Value {
    json!({"cpu": cpu_text(usage.cpu_nanocores.into()), "memory": memory_text(usage.memory_bytes.into())})
}

/// Formats a duration as Go does: `10.002s`, `1m30s`.
fn duration_text(milliseconds: u64) -> String {
    let (minutes, rest) = (milliseconds / 60_000, milliseconds % 60_000);
    let seconds = format!("{}.{:03}", rest / 1000, rest % 1000);
    let seconds = seconds.trim_end_matches('0').trim_end_matches('.');
    match minutes {
        0 => format!("{seconds}s"),
        _ => format!("{minutes}m{seconds}s"),
    }
}
