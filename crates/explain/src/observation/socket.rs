//! Sockets and environments of processes.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::conntrack::TransportProtocol;
use super::lenient_parsing::valid;

/// Namespace and name of a Pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodName {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A listening TCP or SCTP socket, or a bound UDP socket without a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Protocol.
    pub protocol: TransportProtocol,
    /// Local address; `0.0.0.0` or `::` for all.
    pub address: IpAddr,
    /// Local port.
    pub port: u16,
    /// True if a socket for `::` takes no IPv4 connections (`IPV6_V6ONLY`).
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub v6_only: Option<bool>,
    /// Program of the process.
    #[serde(default, deserialize_with = "valid", skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Pod whose network namespace has the socket; absent for the node's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodName>,
}

/// An environment variable of a process in a Pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceVariable {
    /// Pod.
    pub pod: PodName,
    /// Name, such as `WEB_SERVICE_HOST`.
    pub name: String,
    /// Value.
    pub value: String,
}
