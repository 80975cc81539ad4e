//! Pod (core/v1), with the fields that endpoints need.

use serde::{Deserialize, Serialize};

use super::meta::{ObjectMeta, null_as_default, resource};
use super::service::Protocol;

/// A Pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: PodSpec,
    /// Observed state.
    #[serde(deserialize_with = "null_as_default")]
    pub status: PodStatus,
}

resource!(Pod, "", "v1", "Pod", "pods");

impl Pod {
    /// Returns true if the condition `Ready` is true.
    pub fn is_ready(&self) -> bool {
        self.status
            .conditions
            .iter()
            .any(|condition| condition.kind == "Ready" && condition.status == "True")
    }

    /// Returns true if the Pod has finished: Succeeded or Failed.
    pub fn is_finished(&self) -> bool {
        is_final_phase(&self.status.phase)
    }

    /// Returns true if deletion of the Pod was requested.
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// Returns true for the final phases, Succeeded and Failed.
pub fn is_final_phase(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

/// `spec` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Node of the Pod, or "".
    pub node_name: String,
    /// Host name, or "" for the Pod's name.
    pub hostname: String,
    /// Subdomain: the name of a headless Service.
    pub subdomain: String,
    /// True if the Pod uses the network of its node.
    pub host_network: bool,
    /// Containers, without init containers.
    #[serde(deserialize_with = "null_as_default")]
    pub containers: Vec<Container>,
    /// Init containers; restartable ones may name ports too (EPC-06).
    #[serde(deserialize_with = "null_as_default")]
    pub init_containers: Vec<Container>,
}

/// A container, with its ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Name of the container, unique in its Pod.
    pub name: String,
    /// Declared ports.
    #[serde(deserialize_with = "null_as_default")]
    pub ports: Vec<ContainerPort>,
    /// `Always` for a restartable init container.
    pub restart_policy: Option<String>,
}

/// A port of a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// Name, or "".
    pub name: String,
    /// Port number.
    pub container_port: u16,
    /// Transport protocol.
    pub protocol: Protocol,
}

/// `status` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// Pending, Running, Succeeded, Failed or Unknown.
    pub phase: String,
    /// First address, or "".
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    /// All addresses.
    #[serde(rename = "podIPs", deserialize_with = "null_as_default")]
    pub pod_ips: Vec<PodIp>,
    /// Conditions, at most one per type.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<PodCondition>,
}

/// Entry of `status.podIPs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodIp {
    /// IP address, as the Pod reports it.
    pub ip: String,
}

/// A condition of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// RFC 3339 time of the last change of `status`.
    pub last_transition_time: Option<String>,
}
