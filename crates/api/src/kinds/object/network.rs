//! ServiceCIDR and IPAddress (networking.k8s.io/v1): ranges of cluster IPs, and the addresses in use.

use serde::{Deserialize, Serialize};

use super::meta::{ObjectMeta, null_as_default, resource};

/// A ServiceCIDR.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceCidr {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: ServiceCidrSpec,
    /// Observed state.
    #[serde(deserialize_with = "null_as_default")]
    pub status: ServiceCidrStatus,
}

resource!(
    ServiceCidr,
    "networking.k8s.io",
    "v1",
    "ServiceCIDR",
    "servicecidrs"
);

impl ServiceCidr {
    /// Returns the condition of a type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status
            .conditions
            .iter()
            .find(|condition| condition.kind == kind)
    }
}

/// `spec` of a ServiceCIDR.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceCidrSpec {
    /// Ranges: one, or one per family.
    #[serde(deserialize_with = "null_as_default")]
    pub cidrs: Vec<String>,
}

/// `status` of a ServiceCIDR.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceCidrStatus {
    /// Conditions, at most one per type.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
}

/// A condition of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// Reason, one word in CamelCase.
    pub reason: String,
    /// Human-readable message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// An IPAddress; its name is the address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IpAddress {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
}

resource!(IpAddress, "networking.k8s.io", "v1", "IPAddress", "ipaddresses");
