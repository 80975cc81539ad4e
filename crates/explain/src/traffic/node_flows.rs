//! Report of one node. It contains addresses only: the reader resolves them to Pods and Nodes with its own rights.

use std::net::{IpAddr, SocketAddr};

use api::object::Protocol;
use serde::{Deserialize, Serialize};

use super::attribution::FrontendKind;
use super::statistics::TrafficStatistics;
use crate::observation::Metadata;

/// `apiVersion` of reports.
pub const API_VERSION: &str = "traffic.portolan.dev/v1";
/// `kind` of reports.
pub const KIND: &str = "NodeFlows";

/// Completeness of the events of connection tracking in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Events {
    /// Each connection is counted.
    Complete,
    /// The queue overflowed: connections that began and ended between two samples may be missing.
    Lost,
    /// The kernel sends no events: connections that began and ended between two samples are missing.
    #[default]
    Off,
}

/// Traffic of the Services through one node in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeFlows {
    /// [`API_VERSION`].
    pub api_version: String,
    /// [`KIND`].
    pub kind: String,
    /// Name of the Node.
    pub metadata: Metadata,
    /// RFC 3339 time of the end of the interval.
    pub observed_at: String,
    /// Length of the interval.
    pub interval_seconds: f64,
    /// Mode of the node proxy, or "" if it is unknown.
    pub mode: String,
    /// True if the kernel counts bytes (`net.netfilter.nf_conntrack_acct`). Otherwise all numbers of bytes are 0.
    pub counts_bytes: bool,
    /// Open flows whose bytes are unknown, because they began before the kernel counted.
    pub flows_without_bytes: u64,
    /// Events of connection tracking.
    pub events: Events,
    /// Entries of connection tracking, with those of no Service.
    pub entries: u64,
    /// Names of the parts with more rows than the report contains: `flows`, `services`, `endpoints`, `clients`, `flowRows`.
    pub truncated: Vec<String>,
    /// Services with traffic, those with the most connections first.
    pub services: Vec<ServiceTraffic>,
    /// Single flows, if the request includes them; the ones with the most bytes in the interval first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowRow>,
}

/// Traffic of a Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceTraffic {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Sums.
    #[serde(rename = "figures")]
    pub statistics: TrafficStatistics,
    /// Frontends with traffic.
    pub frontends: Vec<FrontendTraffic>,
    /// Endpoints with traffic.
    pub endpoints: Vec<EndpointTraffic>,
    /// Clients, the busiest first.
    pub clients: Vec<ClientTraffic>,
    /// Number of further clients.
    pub clients_omitted: u64,
    /// Number of further endpoints.
    pub endpoints_omitted: u64,
}

/// Traffic of a frontend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendTraffic {
    /// Kind of the address.
    pub kind: FrontendKind,
    /// Address; absent for node ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Port.
    pub port: u16,
    /// Protocol.
    pub protocol: Protocol,
    /// Name of the Service port.
    #[serde(default)]
    pub port_name: String,
    /// Sums.
    #[serde(default, rename = "figures")]
    pub statistics: TrafficStatistics,
}

/// Traffic of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointTraffic {
    /// Address and port; absent if a process of the node relays the connections, as in userspace mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
    /// Protocol.
    pub protocol: Protocol,
    /// Sums.
    #[serde(default, rename = "figures")]
    pub statistics: TrafficStatistics,
}

/// Traffic of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientTraffic {
    /// Address.
    pub address: IpAddr,
    /// Sums.
    #[serde(default, rename = "figures")]
    pub statistics: TrafficStatistics,
    /// Endpoints that the client is connected to, those with the most connections first.
    #[serde(default)]
    pub endpoints: Vec<EndpointConnections>,
}

/// Open connections of a client to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointConnections {
    /// Address and port of the endpoint.
    pub address: SocketAddr,
    /// Number of open connections.
    pub connections: u64,
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowRow {
    /// Namespace of the Service.
    pub namespace: String,
    /// Name of the Service.
    pub name: String,
    /// Name of the Service port.
    #[serde(default)]
    pub port_name: String,
    /// Protocol.
    pub protocol: Protocol,
    /// Kind of the frontend.
    pub kind: FrontendKind,
    /// Address of the frontend; absent for node ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Port of the frontend.
    pub port: u16,
    /// Client.
    pub client: SocketAddr,
    /// Source that the endpoint sees, if it is not the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masqueraded_as: Option<SocketAddr>,
    /// Endpoint; absent if a process of the node relays the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<SocketAddr>,
    /// TCP state as in `/proc/net/nf_conntrack`, `UNREPLIED` or `REPLIED` for other protocols, or `ENDED`, `REFUSED`,
    /// `EXPIRED` for flows that ended in the interval.
    pub state: String,
    /// Age of the flow.
    pub age_seconds: f64,
    /// True if the flow may be older, because its start was not observed.
    #[serde(default)]
    pub may_be_older: bool,
    /// Time until the entry expires without packets.
    #[serde(default)]
    pub expires_in_seconds: u64,
    /// Bytes from the client since the start; absent if the kernel does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_to_endpoint: Option<u64>,
    /// Bytes of replies since the start; absent if the kernel does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_to_client: Option<u64>,
    /// Numbers of the interval.
    #[serde(default, rename = "figures")]
    pub statistics: TrafficStatistics,
}
