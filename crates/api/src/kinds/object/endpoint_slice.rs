//! EndpointSlice (discovery.k8s.io/v1).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::meta::{ObjectMeta, null_as_default, resource};
use super::service::Protocol;

/// Label with the name of the slice's Service.
pub const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

/// An EndpointSlice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Type of the addresses.
    pub address_type: AddressType,
    /// Endpoints. An empty list is omitted, as Go clients do.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub endpoints: Vec<Endpoint>,
    /// Ports of each endpoint.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub ports: Vec<EndpointPort>,
}

resource!(
    EndpointSlice,
    "discovery.k8s.io",
    "v1",
    "EndpointSlice",
    "endpointslices"
);

impl EndpointSlice {
    /// Returns the name of the Service that owns the slice, from its label.
    pub fn service_name(&self) -> Option<&str> {
        self.metadata
            .labels
            .get(SERVICE_NAME_LABEL)
            .map(String::as_str)
            .filter(|name| !name.is_empty())
    }
}

/// `addressType` of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AddressType {
    /// IPv4 addresses.
    #[default]
    IPv4,
    /// IPv6 addresses.
    IPv6,
    /// Host names, which proxies ignore.
    #[serde(rename = "FQDN")]
    Fqdn,
}

/// Endpoint of a slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// Addresses; proxies use the first (KPR-13).
    #[serde(deserialize_with = "null_as_default")]
    pub addresses: Vec<Arc<str>>,
    /// Conditions; absent ones have defaults (KPR-14).
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: EndpointConditions,
    /// Host name in the DNS domain of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Arc<str>>,
    /// Node of the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Arc<str>>,
    /// Zone of the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Arc<str>>,
    /// Zones and nodes that should use the endpoint. Boxed: most endpoints have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<Box<EndpointHints>>,
    /// Object behind the endpoint, usually a Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<Arc<TargetRef>>,
}

/// `conditions` of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// True if the endpoint should receive traffic; `None` means true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// True if the endpoint serves, terminating or not; `None` means true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// True if the endpoint is terminating; `None` means false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

/// `hints` of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointHints {
    /// Zones that should use the endpoint.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub for_zones: Vec<HintName>,
    /// Nodes that should use the endpoint.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub for_nodes: Vec<HintName>,
}

/// Zone or node in a hint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HintName {
    /// Name of the zone or Node.
    pub name: String,
}

/// `targetRef` of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetRef {
    /// Kind, usually `Pod`.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub kind: Arc<str>,
    /// Namespace of the object.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub namespace: Arc<str>,
    /// Name of the object.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name: Arc<str>,
    /// UID of the object.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub uid: Arc<str>,
}

/// Port of a slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointPort {
    /// Name; equal to the name of the Service port. The server writes "" if it is absent.
    pub name: Option<String>,
    /// Transport protocol.
    pub protocol: Option<Protocol>,
    /// Number; `None` means all ports, and proxies ignore the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Application protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
}
