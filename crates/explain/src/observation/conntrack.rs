//! Observed state of connection tracking: limits, flows and masqueraded connections.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::lenient_parsing::valid;

/// The connection tracking table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Conntrack {
    /// Number of entries.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// Maximum number of entries (`net.netfilter.nf_conntrack_max`).
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub maximum: Option<u64>,
    /// Entries that were not inserted since the boot, on all processors.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub insert_failed: Option<u64>,
    /// Packets dropped since the boot, because no entry was allocated for them.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub drops: Option<u64>,
    /// Increase of `insertFailed` during the observation.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub recent_insert_failed: Option<u64>,
    /// Increase of `drops` during the observation.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub recent_drops: Option<u64>,
    /// Flows whose original destination is an address of a Service.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub flows: Option<Vec<Flow>>,
    /// Masqueraded connections, counted by endpoint and source address; the largest counts.
    #[serde(deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub masqueraded: Option<Vec<MasqueradedConnections>>,
}

/// Transport protocol of a flow or a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants have the names of the protocols")]
pub enum TransportProtocol {
    #[serde(rename = "TCP", alias = "tcp")]
    Tcp,
    #[serde(rename = "UDP", alias = "udp")]
    Udp,
    #[serde(rename = "SCTP", alias = "sctp")]
    Sctp,
    /// ICMP for IPv4 or IPv6.
    #[serde(rename = "ICMP", alias = "icmp", alias = "ICMPv6", alias = "icmpv6")]
    Icmp,
    /// Another protocol.
    #[serde(rename = "other", other)]
    Other,
}

impl TransportProtocol {
    /// Returns the name, as in the ports of Services.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
            Self::Icmp => "ICMP",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for TransportProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A conntrack entry. Protocols without ports have none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Flow {
    /// Protocol.
    pub protocol: TransportProtocol,
    /// Client.
    pub source: IpAddr,
    /// Port of the client.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// Address that the client uses.
    pub destination: IpAddr,
    /// Port that the client uses.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<u16>,
    /// Source of replies: the endpoint after translation.
    pub reply_source: IpAddr,
    /// Source port of replies.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub reply_source_port: Option<u16>,
    /// Destination of replies: the client, or the node's address after masquerading.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub reply_destination: Option<IpAddr>,
    /// Destination port of replies.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub reply_destination_port: Option<u16>,
    /// State of TCP and SCTP, such as `ESTABLISHED`, `SYN_SENT` or `TIME_WAIT`.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// True if the entry stays when the table is full (`IPS_ASSURED`).
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub assured: Option<bool>,
    /// True if a reply was seen (`IPS_SEEN_REPLY`).
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub replied: Option<bool>,
    /// Time until the entry expires without packets.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
}

/// Masqueraded connections from one address to one endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MasqueradedConnections {
    /// Protocol.
    pub protocol: TransportProtocol,
    /// Address of the node that replies go to.
    pub source: IpAddr,
    /// Endpoint.
    pub destination: IpAddr,
    /// Port of the endpoint.
    pub destination_port: u16,
    /// Number of conntrack entries.
    pub connections: u64,
}
