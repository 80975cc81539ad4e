//! ServiceCIDR and IPAddress (networking.k8s.io/v1): where cluster IPs come from, and which are given out.

use serde::{Deserialize, Serialize};

use super::meta::{ObjectMeta, null_as_default, resource};

/// A ServiceCIDR.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceCidr {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: ServiceCidrSpec,
    /// What is.
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
    /// The condition of a type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|c| c.kind == kind)
    }
}

/// `spec` of a ServiceCIDR.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceCidrSpec {
    /// One range, or one of each family.
    #[serde(deserialize_with = "null_as_default")]
    pub cidrs: Vec<String>,
}

/// `status` of a ServiceCIDR.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceCidrStatus {
    /// Conditions.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
}

/// A condition of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// Which condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// One word for programs.
    pub reason: String,
    /// A sentence for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// An IPAddress, whose name is the address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IpAddress {
    /// Metadata.
    pub metadata: ObjectMeta,
}

resource!(IpAddress, "networking.k8s.io", "v1", "IPAddress", "ipaddresses");
