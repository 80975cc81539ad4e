//! AddressPool (portolan.dev/v1alpha1): addresses for Services of type LoadBalancer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::meta::{ObjectMeta, null_as_default, resource};

/// An AddressPool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AddressPool {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: AddressPoolSpec,
    /// What is.
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
    /// CIDRs and ranges; [`crate::kinds::address_pool::AddressBlock`] reads them.
    #[serde(deserialize_with = "null_as_default")]
    pub addresses: Vec<String>,
    /// Whether Services that ask for nothing get addresses of it; `None` is yes.
    pub auto_assign: Option<bool>,
    /// Pools of higher priority are used first.
    pub priority: i64,
    /// `External`, `Internal`, or "" for the former.
    pub scope: String,
    /// Whether IPv4 addresses that end in .0 or .255 are kept back.
    #[serde(rename = "avoidBuggyIPs")]
    pub avoid_buggy_ips: bool,
    /// Which namespaces' Services may use it; a `LabelSelector` object.
    pub namespace_selector: Option<Value>,
    /// Which Services may use it; a `LabelSelector` object.
    pub service_selector: Option<Value>,
    /// Which nodes may answer for its addresses: those that any of these `LabelSelector` objects matches, or all if there
    /// is none.
    #[serde(deserialize_with = "null_as_default")]
    pub node_selectors: Vec<Value>,
    /// The links that its addresses are announced on; [`crate::kinds::address_pool::LinkPattern`] reads them.
    #[serde(deserialize_with = "null_as_default")]
    pub interfaces: Vec<String>,
}

/// `status` of an AddressPool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AddressPoolStatus {
    /// The use of each family.
    #[serde(deserialize_with = "null_as_default")]
    pub usage: Vec<AddressPoolUsage>,
}

/// How many addresses of a family are in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AddressPoolUsage {
    /// IPv4 or IPv6.
    pub family: String,
    /// Addresses that can be given out.
    pub total: i64,
    /// Addresses that are in use.
    pub assigned: i64,
}
