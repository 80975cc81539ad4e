//! Observed node proxies: program, mode and health.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::lenient_parsing::valid;

/// A process that runs a node proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeProxy {
    /// Program, such as `portolan`, `kube-proxy`, `k3s` or `cilium-agent`.
    pub name: String,
    /// Process ID.
    #[serde(
        rename = "processID",
        default,
        deserialize_with = "valid",
        skip_serializing_if = "Option::is_none"
    )]
    pub process_id: Option<u32>,
    /// nftables, iptables, ipvs, userspace or ebpf.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Name of the Node that the proxy uses.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Response of the health endpoint; absent if it does not respond.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
    /// Time since the last write of rules.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub seconds_since_sync: Option<u64>,
    /// Age of the oldest received change that the rules do not contain; 0 if they contain all.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub seconds_behind: Option<u64>,
    /// Time since the API server was last reachable for the proxy; 0 while its watches are open.
    #[serde(
        rename = "secondsWithoutAPI",
        default,
        deserialize_with = "valid",
        skip_serializing_if = "Option::is_none"
    )]
    pub seconds_without_api: Option<u64>,
    /// Ranges of Pods of which the proxy does not masquerade connections (`--cluster-cidr`); absent if it detects Pods
    /// in another way.
    #[serde(
        rename = "clusterCIDRs",
        default,
        deserialize_with = "valid",
        skip_serializing_if = "Option::is_none"
    )]
    pub cluster_cidrs: Option<Vec<IpNet>>,
}
