//! AddressPool (portolan.dev/v1alpha1): addresses for Services of type LoadBalancer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::meta::{ObjectMeta, null_as_default, resource};
use super::network::Condition;

/// An AddressPool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AddressPool {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: AddressPoolSpec,
    /// Observed state.
    #[serde(deserialize_with = "null_as_default")]
    pub status: AddressPoolStatus,
}

resource!(
    AddressPool,
    "portolan.dev",
    "v1alpha1",
    "AddressPool",
    "addresspools"
);

/// `spec` of an AddressPool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AddressPoolSpec {
    /// CIDRs and ranges, in the form of [`AddressBlock`](crate::address_pool::AddressBlock).
    #[serde(deserialize_with = "null_as_default")]
    pub addresses: Vec<String>,
    /// Uses the addresses of nodes instead.
    pub node_addresses: Option<NodeAddressesSource>,
    /// True if Services that select no pool receive addresses from this one; `None` means true.
    pub auto_assign: Option<bool>,
    /// Pools of higher priority are used first.
    pub priority: i64,
    /// `External` or `Internal`; "" means `External`.
    pub scope: String,
    /// True if IPv4 addresses that end in .0 or .255 are not assigned.
    #[serde(rename = "avoidBuggyIPs")]
    pub avoid_buggy_ips: bool,
    /// Selector of the namespaces whose Services may use the pool, a `LabelSelector`.
    pub namespace_selector: Option<Value>,
    /// Selector of the Services that may use the pool, a `LabelSelector`.
    pub service_selector: Option<Value>,
    /// Selectors of the nodes that may announce the addresses, `LabelSelector` objects. A node matches any of them;
    /// without selectors all nodes match.
    #[serde(deserialize_with = "null_as_default")]
    pub node_selectors: Vec<Value>,
    /// Links on which the addresses are announced, in the form of [`LinkPattern`](crate::address_pool::LinkPattern).
    #[serde(deserialize_with = "null_as_default")]
    pub interfaces: Vec<String>,
}

/// `spec.nodeAddresses` of an AddressPool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeAddressesSource {
    /// `InternalIP`, `ExternalIP`, or `ExternalOrInternalIP`; "" means `InternalIP`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// `status` of an AddressPool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AddressPoolStatus {
    /// Usage by family.
    #[serde(deserialize_with = "null_as_default")]
    pub usage: Vec<AddressPoolUsage>,
    /// Conditions: `Ready` is false while the pool is invalid.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Number of used addresses of one family.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AddressPoolUsage {
    /// IPv4 or IPv6.
    pub family: String,
    /// Addresses that can be assigned.
    pub total: i64,
    /// Addresses that are assigned.
    pub assigned: i64,
}
