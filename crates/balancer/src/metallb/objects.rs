//! Views of MetalLB's objects, with the fields that have an effect.

use api::object::{ObjectMeta, null_as_default};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An IPAddressPool.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct IpAddressPool {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: IpAddressPoolSpec,
    /// Usage of the addresses.
    #[serde(deserialize_with = "null_as_default")]
    pub status: IpAddressPoolStatus,
}

api::resource!(
    IpAddressPool,
    "metallb.io",
    "v1beta1",
    "IPAddressPool",
    "ipaddresspools"
);

/// `spec` of an IPAddressPool.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IpAddressPoolSpec {
    /// CIDRs and ranges.
    #[serde(deserialize_with = "null_as_default")]
    pub addresses: Vec<String>,
    /// True if Services that select no pool receive addresses from this one; `None` means true.
    pub auto_assign: Option<bool>,
    /// True if IPv4 addresses that end in .0 or .255 are not assigned.
    #[serde(rename = "avoidBuggyIPs")]
    pub avoid_buggy_ips: bool,
    /// Services that may use the pool; `None` for all.
    pub service_allocation: Option<ServiceAllocation>,
}

/// Services that may use a pool. A Service matches the namespaces or their selectors, and the Service selectors;
/// an empty list restricts nothing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceAllocation {
    /// Pools with a lower number are used first; 0 comes last.
    pub priority: i64,
    /// Names of namespaces.
    #[serde(deserialize_with = "null_as_default")]
    pub namespaces: Vec<String>,
    /// Selectors of namespaces.
    #[serde(deserialize_with = "null_as_default")]
    pub namespace_selectors: Vec<Value>,
    /// Selectors of Services.
    #[serde(deserialize_with = "null_as_default")]
    pub service_selectors: Vec<Value>,
}

/// `status` of an IPAddressPool, since MetalLB 0.15. Older definitions drop the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IpAddressPoolStatus {
    /// Assigned IPv4 addresses.
    #[serde(rename = "assignedIPv4")]
    pub assigned_ipv4: i64,
    /// Assigned IPv6 addresses.
    #[serde(rename = "assignedIPv6")]
    pub assigned_ipv6: i64,
    /// Free IPv4 addresses.
    #[serde(rename = "availableIPv4")]
    pub available_ipv4: i64,
    /// Free IPv6 addresses.
    #[serde(rename = "availableIPv6")]
    pub available_ipv6: i64,
}

/// An L2Advertisement.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct L2Advertisement {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: L2AdvertisementSpec,
}

api::resource!(
    L2Advertisement,
    "metallb.io",
    "v1beta1",
    "L2Advertisement",
    "l2advertisements"
);

/// `spec` of an L2Advertisement.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct L2AdvertisementSpec {
    /// Names of the announced pools.
    #[serde(rename = "ipAddressPools", deserialize_with = "null_as_default")]
    pub ip_address_pools: Vec<String>,
    /// Selectors of the announced pools.
    #[serde(rename = "ipAddressPoolSelectors", deserialize_with = "null_as_default")]
    pub ip_address_pool_selectors: Vec<Value>,
    /// Selectors of the nodes that announce; empty for all nodes.
    #[serde(deserialize_with = "null_as_default")]
    pub node_selectors: Vec<Value>,
    /// Selectors of the Services whose addresses are announced; empty for all.
    #[serde(deserialize_with = "null_as_default")]
    pub service_selectors: Vec<Value>,
    /// Links that announce; empty for the default links of the announcers.
    #[serde(deserialize_with = "null_as_default")]
    pub interfaces: Vec<String>,
}
