//! JSON of the Host Compute Network API, schema version 2. Fields that the proxy does not use are left out.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Flag of a [`LoadBalancer`]: direct server return.
pub const BALANCER_DSR: u32 = 1;
/// Flag of a [`LoadBalancer`]: IPv6.
pub const BALANCER_IPV6: u32 = 2;
/// Flag of a [`PortMapping`]: the address is one of the host, as for node ports.
pub const MAPPING_LOCAL_ROUTED_VIP: u32 = 2;
/// Flag of a [`PortMapping`]: direct server return for node ports through the address.
pub const MAPPING_USE_MUX: u32 = 4;
/// Flag of a [`PortMapping`]: packets keep the address as their destination.
pub const MAPPING_PRESERVE_DIP: u32 = 8;
/// Flag of a [`PortMapping`]: clients outside of the cluster use the address.
pub const MAPPING_VIP_EXTERNAL_IP: u32 = 16;
/// Distribution of a [`PortMapping`]: by connection.
pub const DISTRIBUTION_CONNECTION: u32 = 0;
/// Distribution of a [`PortMapping`]: by the client's address.
pub const DISTRIBUTION_SOURCE_IP: u32 = 2;
/// Flag of an [`Endpoint`]: it is on another host.
pub const ENDPOINT_REMOTE: u32 = 1;
/// Type of the endpoint policy with the host of a remote endpoint.
pub const POLICY_PROVIDER_ADDRESS: &str = "ProviderAddress";
/// Type of the network policy with the subnet of another host.
pub const POLICY_REMOTE_SUBNET_ROUTE: &str = "RemoteSubnetRoute";

/// Identifier of an HNS object: a GUID in upper case, without braces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct HnsId(String);

impl HnsId {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if the object has no identifier yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<String> for HnsId {
    fn from(text: String) -> Self {
        let bare = text.trim_matches(|character: char| matches!(character, '{' | '}'));
        Self(bare.to_ascii_uppercase())
    }
}

impl From<&str> for HnsId {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<HnsId> for String {
    fn from(id: HnsId) -> Self {
        id.0
    }
}

/// Version of the schema of an object or query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SchemaVersion {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl Default for SchemaVersion {
    /// Returns version 2.0, which all requests use.
    fn default() -> Self {
        Self { major: 2, minor: 0 }
    }
}

/// Version of HNS, as `GET /globals/version` returns it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct HnsVersion {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// Query of properties, without a filter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PropertyQuery {
    /// Version of the expected schema.
    pub schema_version: SchemaVersion,
}

/// A policy of an endpoint or network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Policy {
    /// Type, such as [`POLICY_PROVIDER_ADDRESS`].
    #[serde(rename = "Type")]
    pub kind: String,
    /// Settings; their fields depend on the type.
    pub settings: Value,
}

/// An address of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct IpConfiguration {
    /// Address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip_address: String,
    /// Length of the prefix; 0 for no prefix.
    #[serde(skip_serializing_if = "is_zero_length")]
    pub prefix_length: u8,
}

/// An endpoint of a network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Endpoint {
    /// Identifier; HNS sets it.
    #[serde(rename = "ID", skip_serializing_if = "HnsId::is_empty")]
    pub id: HnsId,
    /// Name; empty for endpoints of the proxy.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Network.
    #[serde(skip_serializing_if = "HnsId::is_empty")]
    pub host_compute_network: HnsId,
    /// Policies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<Policy>,
    /// Addresses, one per family.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ip_configurations: Vec<IpConfiguration>,
    /// MAC address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mac_address: String,
    /// Flags: [`ENDPOINT_REMOTE`].
    #[serde(skip_serializing_if = "is_zero")]
    pub flags: u32,
    /// Version of the schema.
    pub schema_version: SchemaVersion,
}

impl Endpoint {
    /// Returns true if the endpoint is on another host.
    pub fn is_remote(&self) -> bool {
        self.flags & ENDPOINT_REMOTE != 0
    }
}

/// A port of a load balancer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PortMapping {
    /// Number of the protocol: 6 for TCP, 17 for UDP, 132 for SCTP.
    #[serde(skip_serializing_if = "is_zero")]
    pub protocol: u32,
    /// Port of the endpoints.
    #[serde(skip_serializing_if = "is_zero_port")]
    pub internal_port: u16,
    /// Port that clients use.
    #[serde(skip_serializing_if = "is_zero_port")]
    pub external_port: u16,
    /// [`DISTRIBUTION_CONNECTION`] or [`DISTRIBUTION_SOURCE_IP`].
    #[serde(skip_serializing_if = "is_zero")]
    pub distribution_type: u32,
    /// Flags: `MAPPING_…`.
    #[serde(skip_serializing_if = "is_zero")]
    pub flags: u32,
}

/// A load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct LoadBalancer {
    /// Identifier; HNS sets it.
    #[serde(rename = "ID", skip_serializing_if = "HnsId::is_empty")]
    pub id: HnsId,
    /// Endpoints, sorted in requests.
    #[serde(rename = "HostComputeEndpoints", skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<HnsId>,
    /// Source address of forwarded packets; empty for no address.
    #[serde(rename = "SourceVIP", skip_serializing_if = "String::is_empty")]
    pub source_vip: String,
    /// Addresses that clients use; empty for those of the host.
    #[serde(rename = "FrontendVIPs", skip_serializing_if = "Vec::is_empty")]
    pub frontend_vips: Vec<String>,
    /// Ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub port_mappings: Vec<PortMapping>,
    /// Version of the schema.
    pub schema_version: SchemaVersion,
    /// Flags: [`BALANCER_DSR`], [`BALANCER_IPV6`].
    #[serde(skip_serializing_if = "is_zero")]
    pub flags: u32,
}

/// A range of addresses of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Subnet {
    /// Range in CIDR notation.
    pub ip_address_prefix: String,
}

/// Address management of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Ipam {
    /// Ranges of this host.
    pub subnets: Vec<Subnet>,
}

/// A network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Network {
    /// Identifier.
    #[serde(rename = "ID")]
    pub id: HnsId,
    /// Name.
    pub name: String,
    /// Type: `Overlay`, `L2Bridge` and others.
    #[serde(rename = "Type")]
    pub kind: String,
    /// Policies.
    pub policies: Vec<Policy>,
    /// Address management.
    pub ipams: Vec<Ipam>,
}

/// Settings of a policy of type [`POLICY_REMOTE_SUBNET_ROUTE`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RemoteSubnetRoute {
    /// Range of the Pods of another host.
    pub destination_prefix: String,
    /// Address of that host.
    pub provider_address: String,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_zero_port(port: &u16) -> bool {
    *port == 0
}

fn is_zero_length(length: &u8) -> bool {
    *length == 0
}

/// Decodes a response of HNS. Fields with null count as absent.
///
/// # Errors
///
/// The error of the decoder.
pub fn decode<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    let mut value: Value = serde_json::from_str(text)?;
    drop_nulls(&mut value);
    serde_json::from_value(value)
}

/// Removes fields with null. The parser limits the depth of a value.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
