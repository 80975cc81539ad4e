//! Endpoints (core/v1), the older form of EndpointSlices.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::endpoint_slice::TargetRef;
use super::meta::{ObjectMeta, null_as_default, resource};
use super::service::Protocol;

/// The endpoints of the Service of the same name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Endpoints {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Subsets; each stands for all pairs of its addresses and ports.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub subsets: Vec<EndpointSubset>,
}

resource!(Endpoints, "", "v1", "Endpoints", "endpoints");

/// Addresses with the same ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSubset {
    /// Addresses that receive traffic.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub addresses: Vec<EndpointAddress>,
    /// Addresses that do not receive traffic yet.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub not_ready_addresses: Vec<EndpointAddress>,
    /// Ports; none for headless Services without ports (EPC-07).
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub ports: Vec<SubsetPort>,
}

/// Address of a subset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointAddress {
    /// The IP address.
    pub ip: Arc<str>,
    /// Host name in the DNS domain of the Service, or "".
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// Node of the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Arc<str>>,
    /// Object behind the endpoint, usually a Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<Arc<TargetRef>>,
}

/// Port of a subset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubsetPort {
    /// Name, or ""; equal to the name of the Service port.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Port number.
    pub port: u16,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Application protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
}
