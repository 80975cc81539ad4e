//! Node (core/v1).

use serde::{Deserialize, Serialize};

use super::meta::{Labels, ObjectMeta, null_as_default, resource};

/// A Node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: NodeSpec,
    /// Observed state.
    #[serde(deserialize_with = "null_as_default")]
    pub status: NodeStatus,
}

resource!(Node, "", "v1", "Node", "nodes");

impl Node {
    /// Returns the zone of the node, from its label.
    pub fn zone(&self) -> Option<&str> {
        self.metadata
            .labels
            .get("topology.kubernetes.io/zone")
            .map(String::as_str)
            .filter(|zone| !zone.is_empty())
    }

    /// Returns the condition of a type.
    pub fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.status
            .conditions
            .iter()
            .find(|condition| condition.kind == kind)
    }

    /// Returns true if the condition `Ready` is true.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready")
            .is_some_and(|condition| condition.status == "True")
    }
}

/// `spec` of a Node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// First of the Pod address ranges.
    #[serde(rename = "podCIDR")]
    pub pod_cidr: String,
    /// Pod address ranges, one per family.
    #[serde(rename = "podCIDRs", deserialize_with = "null_as_default")]
    pub pod_cidrs: Vec<String>,
    /// True if the scheduler assigns no new Pods.
    pub unschedulable: bool,
    /// Taints, which repel Pods without a matching toleration.
    #[serde(deserialize_with = "null_as_default")]
    pub taints: Vec<Taint>,
}

/// A taint of a Node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// Key, a qualified name.
    pub key: String,
    /// Value; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// NoSchedule, PreferNoSchedule or NoExecute.
    pub effect: String,
    /// RFC 3339 time of addition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<String>,
}

/// `status` of a Node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Addresses by type.
    #[serde(deserialize_with = "null_as_default")]
    pub addresses: Vec<NodeAddress>,
    /// Conditions, at most one per type.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<NodeCondition>,
    /// Resources for Pods, by name.
    #[serde(deserialize_with = "null_as_default")]
    pub allocatable: Labels,
}

/// An address of a Node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeAddress {
    /// InternalIP, ExternalIP, Hostname …
    #[serde(rename = "type")]
    pub kind: String,
    /// Address or host name.
    pub address: String,
}

/// A condition of a Node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// RFC 3339 time of the last heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<String>,
}
