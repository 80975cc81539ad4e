//! Links, routes, neighbours and BGP sessions.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::lenient_parsing::valid;
use super::socket::PodName;

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Link {
    /// Name.
    pub name: String,
    /// Kind, such as bridge, veth, vxlan or dummy; absent for hardware and loopback.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// True if the link is up.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub up: Option<bool>,
    /// Maximum transmission unit.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Bridge or bond that the link is a port of.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub master: Option<String>,
    /// Only for ports of a bridge: true if the bridge sends frames back to the port that they came from.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub hairpin: Option<bool>,
    /// True if the link is in promiscuous mode.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub promiscuous: Option<bool>,
    /// Addresses with the length of their prefix, such as `10.0.0.1/24`.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<IpNet>>,
    /// Pod at the other end of a veth.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodName>,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// Destination; `0.0.0.0/0` and `::/0` for default routes.
    pub destination: IpNet,
    /// unicast, blackhole, unreachable, prohibit, throw or local.
    #[serde(rename = "type")]
    pub kind: String,
    /// Next hop.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
    /// Output link.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Metric.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub metric: Option<u32>,
    /// Program that wrote the route, such as kernel, static, bird or a number.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
}

/// An entry of a neighbour table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Neighbour {
    /// Address.
    pub address: IpAddr,
    /// Link.
    pub link: String,
    /// reachable, stale, delay, probe, failed, incomplete, permanent or noarp.
    pub state: String,
    /// Address of the link layer, such as `02:00:00:00:00:01`.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub link_address: Option<String>,
}

/// A BGP session, by its TCP connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BgpSession {
    /// Address of the peer.
    pub peer: IpAddr,
    /// State of the session or of its TCP connection: established, or another one.
    pub state: String,
    /// Program of the speaker, such as `bgpd` or `bird`.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}
