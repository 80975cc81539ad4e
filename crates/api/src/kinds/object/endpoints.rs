//! Endpoints (core/v1), the older form of what EndpointSlices say.

use serde::{Deserialize, Serialize};

use super::endpointslice::TargetRef;
use super::meta::{ObjectMeta, null_as_default, resource};
use super::service::Protocol;

/// The endpoints of the Service of the same name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Endpoints {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Addresses and ports: each subset stands for all their pairs.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub subsets: Vec<EndpointSubset>,
}

resource!(Endpoints, "", "v1", "Endpoints", "endpoints");

/// Addresses that serve the same ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSubset {
    /// Addresses that should get traffic.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub addresses: Vec<EndpointAddress>,
    /// Addresses that should not get traffic yet.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub not_ready_addresses: Vec<EndpointAddress>,
    /// The ports; none for headless Services without ports (EPC-07).
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub ports: Vec<SubsetPort>,
}

/// One address of a subset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointAddress {
    /// The IP address.
    pub ip: String,
    /// Host name in the Service's DNS domain, or "".
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// The node that the endpoint is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The object behind the endpoint, most often a Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
}

/// One port of a subset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubsetPort {
    /// Name, or ""; must equal the Service port's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Number.
    pub port: u16,
    /// Protocol.
    pub protocol: Protocol,
    /// Hint at the protocol spoken over it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
}
