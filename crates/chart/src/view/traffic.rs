//! Traffic of Services, as the flows of nodes show it.

use std::collections::BTreeMap;

use api::object::ObjectKey;
use serde::Serialize;

/// Maximum number of clients of a Service that are kept, the busiest ones.
pub const CLIENTS_MAX: usize = 200;

/// Traffic of a Service, an endpoint or a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Traffic {
    /// Open connections.
    pub connections: u64,
    /// New connections each second.
    pub connections_per_second: f64,
    /// Bytes each second, in both directions; absent if no node counts them.
    pub bytes_per_second: Option<f64>,
    /// Connections of the latest interval that were refused or received no response.
    pub failed: u64,
}

/// Kind of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientKind {
    /// Pod.
    Pod,
    /// Process in the network of a node.
    Node,
    /// Host outside of the cluster.
    External,
}

/// Client of a Service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientRow {
    /// Address.
    pub address: String,
    /// Kind.
    pub kind: ClientKind,
    /// Namespace and name of a Pod, the name of a node, or "".
    pub name: String,
    /// Node of the client, or "".
    pub node: String,
    /// Traffic to the Service.
    pub traffic: Traffic,
    /// Addresses of endpoints with the number of open connections.
    pub endpoints: Vec<(String, u64)>,
}

/// Traffic of one Service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceTraffic {
    /// All connections.
    pub total: Traffic,
    /// Traffic by the address of the endpoint.
    pub endpoints: BTreeMap<String, Traffic>,
    /// Clients, the busiest ones first, at most [`CLIENTS_MAX`].
    pub clients: Vec<ClientRow>,
}

/// Traffic of all Services in one interval.
pub type ClusterTraffic = BTreeMap<ObjectKey, ServiceTraffic>;
