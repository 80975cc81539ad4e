//! Observations of nodes: the state of the kernel, of processes and of the network at one moment, and responses to probes.
//!
//! Inputs contain a [`NodeObservation`] as an object, alongside the objects of the API. Each part is optional. An
//! absent part is unknown, so no finding depends on it. A part with an invalid value reads as absent.

mod conntrack;
mod firewall;
mod lenient_parsing;
mod network;
mod probe;
mod proxy;
mod socket;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use conntrack::{Conntrack, Flow, MasqueradedConnections, TransportProtocol};
pub use firewall::{Chain, Firewall, ForwardChain, ForwardRule, Iptables, Table};
pub use network::{BgpSession, Link, Neighbour, Route};
pub use probe::{InvalidName, Outcome, Probe, ProbeKind, ProbeSource, ServiceName};
pub use proxy::NodeProxy;
pub use socket::{Listener, PodName, ServiceVariable};

use lenient_parsing::valid;

/// `apiVersion` of observations.
pub const API_VERSION: &str = "doctor.portolan.dev/v1";
/// `kind` of observations.
pub const KIND: &str = "NodeObservation";

/// Observation of one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeObservation {
    /// [`API_VERSION`].
    pub api_version: String,
    /// [`KIND`].
    pub kind: String,
    /// Name of the Node.
    pub metadata: Metadata,
    /// RFC 3339 time of the observation.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<String>,
    /// Host name of the kernel.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Processes that run a node proxy, with programs that embed one, such as `k3s` or `cilium-agent`.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub proxies: Option<Vec<NodeProxy>>,
    /// Tables of nftables in all families, with those of iptables-nft.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub tables: Option<Vec<Table>>,
    /// Rules of iptables, in both variants.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub iptables: Option<Iptables>,
    /// Number of virtual servers of IPVS.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub ipvs_services: Option<u64>,
    /// Firewall programs, found by their chains.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub firewalls: Option<Vec<Firewall>>,
    /// Kernel parameters by name, such as `net.ipv4.ip_forward`. A dot in the name of a link is written as a slash.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub sysctls: Option<BTreeMap<String, String>>,
    /// Counters of the kernel since the boot by name, such as `TcpExt.IPReversePathFilter`.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub counters: Option<BTreeMap<String, u64>>,
    /// Links of the node's network namespace.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub links: Option<Vec<Link>>,
    /// Routes of the main table, for both families.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub routes: Option<Vec<Route>>,
    /// Entries of the neighbour tables.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<Vec<Neighbour>>,
    /// Connection tracking.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub conntrack: Option<Conntrack>,
    /// Listeners in the node's network namespace, and in those of [`Self::inspected_pods`].
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub listeners: Option<Vec<Listener>>,
    /// Pods whose network namespaces were read for [`Self::listeners`], with those that have no listener.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub inspected_pods: Option<Vec<PodName>>,
    /// Environment variables of Pods for the addresses of Services, such as `WEB_SERVICE_HOST`.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub service_variables: Option<Vec<ServiceVariable>>,
    /// Certificates that components of the node use.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub certificates: Option<Vec<Certificate>>,
    /// Clock of the node minus the clock of the API server.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub clock_offset_seconds: Option<f64>,
    /// First and last local port of outgoing connections (`net.ipv4.ip_local_port_range`).
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub local_port_range: Option<[u16; 2]>,
    /// Ranges of ports that outgoing connections do not use (`net.ipv4.ip_local_reserved_ports`).
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub reserved_ports: Option<Vec<[u16; 2]>>,
    /// Sessions of BGP speakers on the node, by their TCP connections.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub bgp_sessions: Option<Vec<BgpSession>>,
    /// Responses to probes.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub probes: Option<Vec<Probe>>,
    /// Names of the parts with more entries than the observation contains, such as `routes`.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Vec<String>>,
}

/// Metadata of an observation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Name of the Node.
    pub name: String,
}

/// A certificate in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// Path of the file.
    pub path: String,
    /// Subject.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// RFC 3339 time of expiry.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

impl NodeObservation {
    /// Returns an observation of a Node without any part.
    pub fn of_node(name: impl Into<String>) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            metadata: Metadata { name: name.into() },
            ..Self::default()
        }
    }

    /// Returns true if a part has more entries than the observation contains.
    pub fn is_truncated(&self, part: &str) -> bool {
        self.truncated.iter().flatten().any(|name| name == part)
    }
}

#[cfg(test)]
mod tests;
