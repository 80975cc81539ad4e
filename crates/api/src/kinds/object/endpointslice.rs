//! EndpointSlice (discovery.k8s.io/v1).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::meta::{ObjectMeta, null_as_default, resource};
use super::service::Protocol;

/// Label that names the Service of a slice.
pub const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

/// An EndpointSlice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What the addresses are.
    pub address_type: AddressType,
    /// The endpoints; none are written as the Go clients write them: not at all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub endpoints: Vec<Endpoint>,
    /// The ports that each of the endpoints serves.
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
    /// Name of the Service that the slice belongs to, from its label.
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
    /// Names, which no proxy uses.
    #[serde(rename = "FQDN")]
    Fqdn,
}

/// One endpoint of a slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// Addresses; proxies use the first (KPR-13).
    #[serde(deserialize_with = "null_as_default")]
    pub addresses: Vec<Arc<str>>,
    /// Conditions; absent ones have defaults (KPR-14).
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: EndpointConditions,
    /// Host name in the Service's DNS domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The node that the endpoint is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Arc<str>>,
    /// The zone that the endpoint is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Arc<str>>,
    /// For whom the endpoint is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<EndpointHints>,
    /// The object behind the endpoint, most often a Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
}

/// `conditions` of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// Should get traffic; absent means yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Answers, even if terminating; absent means yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// Is being ended; absent means no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

/// `hints` of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointHints {
    /// Zones that should use it.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub for_zones: Vec<HintName>,
    /// Nodes that should use it.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub for_nodes: Vec<HintName>,
}

/// A zone or node in a hint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HintName {
    /// Name.
    pub name: String,
}

/// `targetRef` of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetRef {
    /// Kind, `Pod` most often.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// UID.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// One of a slice's ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointPort {
    /// Name; must equal the Service port's. The server writes "" where none is given.
    pub name: Option<String>,
    /// Protocol.
    pub protocol: Option<Protocol>,
    /// Number; absent means all ports, which proxies ignore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Hint at the protocol spoken over it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
}
