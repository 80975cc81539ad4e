//! The reports of all nodes together.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use api::object::Protocol;
use serde::{Deserialize, Serialize};

use super::attribution::FrontendKind;
use super::names::{Names, Peer};
use super::node_flows::{
    API_VERSION, EndpointConnections, Events, FlowRow, FrontendTraffic, NodeFlows, ServiceTraffic,
};
use super::statistics::{Rates, TrafficStatistics};

/// Maximum number of endpoints of a client.
const CLIENT_ENDPOINTS_MAX: usize = 20;

/// Traffic of the Services of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTraffic {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// `ClusterTraffic`.
    pub kind: &'static str,
    /// State of the report of each node, ordered by name.
    pub nodes: Vec<NodeState>,
    /// Services with traffic, ordered by namespace and name.
    pub services: Vec<ServiceRow>,
    /// Single flows with the names of their nodes, if the request includes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<NodeFlow>,
}

/// A flow with the node that reports it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFlow {
    /// Node that tracks the connection.
    pub node: String,
    /// Pod, Node or external host that the client is.
    pub client_peer: Peer,
    /// Pod or Node that the endpoint is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_peer: Option<Peer>,
    /// The flow.
    #[serde(flatten)]
    pub flow: FlowRow,
}

/// State of a node's report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeState {
    /// Name of the Node.
    pub name: String,
    /// Reason why there is no report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Mode of the node proxy, or "".
    pub mode: String,
    /// RFC 3339 time of the end of the interval.
    pub observed_at: String,
    /// Length of the interval.
    pub interval_seconds: f64,
    /// True if the kernel counts bytes.
    pub counts_bytes: bool,
    /// Open flows whose bytes are unknown.
    pub flows_without_bytes: u64,
    /// Events of connection tracking.
    pub events: Events,
    /// Entries of connection tracking.
    pub entries: u64,
    /// Parts with more rows than the report contains.
    pub truncated: Vec<String>,
}

/// Traffic of a Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceRow {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Sums.
    #[serde(flatten)]
    pub rates: Rates,
    /// Endpoints with traffic, ordered by address. The last one has no address: it stands for connections that a
    /// process relays.
    pub endpoints: Vec<EndpointRow>,
    /// Clients with traffic, ordered by address.
    pub clients: Vec<ClientRow>,
    /// Frontends with traffic.
    pub frontends: Vec<FrontendRow>,
    /// Number of clients that the nodes have omitted.
    pub clients_omitted: u64,
    /// Number of endpoints that the nodes have omitted.
    pub endpoints_omitted: u64,
}

/// Traffic of a frontend.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendRow {
    /// The frontend, with the numbers of the node that reports it first.
    #[serde(flatten)]
    pub frontend: FrontendTraffic,
    /// Sums.
    pub rates: Rates,
}

/// Traffic of an endpoint.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointRow {
    /// Address and port; `None` if processes of nodes relay the connections.
    pub address: Option<SocketAddr>,
    /// Protocol.
    pub protocol: Protocol,
    /// Pod or Node at the address.
    pub peer: Option<Peer>,
    /// Sums.
    #[serde(flatten)]
    pub rates: Rates,
}

/// Traffic of a client.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientRow {
    /// Address.
    pub address: IpAddr,
    /// Pod, Node or external host at the address.
    #[serde(flatten)]
    pub peer: Peer,
    /// Sums.
    #[serde(flatten)]
    pub rates: Rates,
    /// Endpoints that the client is connected to.
    pub endpoints: Vec<EndpointConnections>,
}

impl Default for ClusterTraffic {
    fn default() -> Self {
        Self {
            api_version: API_VERSION,
            kind: "ClusterTraffic",
            nodes: Vec::new(),
            services: Vec::new(),
            flows: Vec::new(),
        }
    }
}

/// Service while the reports of nodes are merged.
#[derive(Default)]
struct MergedService {
    rates: Rates,
    frontends: BTreeMap<(FrontendKind, Option<IpAddr>, u16, Protocol), FrontendRow>,
    endpoints: BTreeMap<(Option<SocketAddr>, Protocol), Rates>,
    clients: BTreeMap<IpAddr, (Rates, BTreeMap<SocketAddr, u64>)>,
    clients_omitted: u64,
    endpoints_omitted: u64,
}

impl ClusterTraffic {
    /// Merges the results of the nodes: the report, or the reason why there is none. A connection counts once, because
    /// only the node that translates it has an entry with the frontend.
    pub fn merge(results: Vec<(String, Result<NodeFlows, String>)>, names: &Names) -> Self {
        let mut merged = Self::default();
        let mut services: BTreeMap<(String, String), MergedService> = BTreeMap::new();
        for (node, result) in results {
            let report = match result {
                Ok(report) => report,
                Err(error) => {
                    merged.nodes.push(NodeState {
                        name: node,
                        error: Some(error),
                        ..NodeState::default()
                    });
                    continue;
                }
            };
            let rates = |statistics: &TrafficStatistics| {
                statistics.rates(report.interval_seconds, report.counts_bytes)
            };
            for service in report.services {
                let key = (service.namespace.clone(), service.name.clone());
                services.entry(key).or_default().add(service, &rates);
            }
            merged.flows.extend(report.flows.into_iter().map(|flow| NodeFlow {
                node: node.clone(),
                client_peer: names.peer(flow.client.ip()),
                endpoint_peer: flow.endpoint.map(|endpoint| names.peer(endpoint.ip())),
                flow,
            }));
            merged.nodes.push(NodeState {
                name: node,
                error: None,
                mode: report.mode,
                observed_at: report.observed_at,
                interval_seconds: report.interval_seconds,
                counts_bytes: report.counts_bytes,
                flows_without_bytes: report.flows_without_bytes,
                events: report.events,
                entries: report.entries,
                truncated: report.truncated,
            });
        }
        merged.nodes.sort_by(|one, other| one.name.cmp(&other.name));
        let services = services.into_iter();
        merged.services = services.map(|(key, sums)| sums.row(key, names)).collect();
        merged
    }

    /// Returns true if at least one node counts bytes.
    pub fn counts_bytes(&self) -> bool {
        self.nodes
            .iter()
            .any(|node| node.error.is_none() && node.counts_bytes)
    }

    /// Returns true if at least one node has reported.
    pub fn has_reports(&self) -> bool {
        self.nodes.iter().any(|node| node.error.is_none())
    }

    /// Returns the sums of all Services.
    pub fn totals(&self) -> Rates {
        let mut totals = Rates::default();
        for service in &self.services {
            totals.add(&service.rates);
        }
        totals
    }
}

impl MergedService {
    fn add(&mut self, service: ServiceTraffic, rates: &impl Fn(&TrafficStatistics) -> Rates) {
        self.rates.add(&rates(&service.statistics));
        self.clients_omitted = self.clients_omitted.saturating_add(service.clients_omitted);
        self.endpoints_omitted = self.endpoints_omitted.saturating_add(service.endpoints_omitted);
        for frontend in service.frontends {
            let key = (frontend.kind, frontend.address, frontend.port, frontend.protocol);
            let own = rates(&frontend.statistics);
            let row = self.frontends.entry(key).or_insert_with(|| FrontendRow {
                frontend,
                rates: Rates::default(),
            });
            row.rates.add(&own);
        }
        for endpoint in service.endpoints {
            let sum = self.endpoints.entry((endpoint.address, endpoint.protocol));
            sum.or_default().add(&rates(&endpoint.statistics));
        }
        for client in service.clients {
            let (sum, endpoints) = self.clients.entry(client.address).or_default();
            sum.add(&rates(&client.statistics));
            for endpoint in client.endpoints {
                let connections = endpoints.entry(endpoint.address).or_default();
                *connections = connections.saturating_add(endpoint.connections);
            }
        }
    }

    fn row(self, (namespace, name): (String, String), names: &Names) -> ServiceRow {
        let mut endpoints: Vec<EndpointRow> = self
            .endpoints
            .into_iter()
            .map(|((address, protocol), rates)| EndpointRow {
                address,
                protocol,
                peer: address.map(|address| names.peer(address.ip())),
                rates,
            })
            .collect();
        endpoints.sort_by_key(|endpoint| endpoint.address.is_none());
        let clients = self.clients.into_iter();
        ServiceRow {
            namespace,
            name,
            rates: self.rates,
            endpoints,
            clients: clients
                .map(|(address, (rates, endpoints))| ClientRow {
                    address,
                    peer: names.peer(address),
                    rates,
                    endpoints: connections(endpoints),
                })
                .collect(),
            frontends: self.frontends.into_values().collect(),
            clients_omitted: self.clients_omitted,
            endpoints_omitted: self.endpoints_omitted,
        }
    }
}

/// Returns the endpoints with the most connections first.
fn connections(endpoints: BTreeMap<SocketAddr, u64>) -> Vec<EndpointConnections> {
    let mut endpoints: Vec<EndpointConnections> = endpoints
        .into_iter()
        .map(|(address, connections)| EndpointConnections { address, connections })
        .collect();
    endpoints.sort_by_key(|endpoint| std::cmp::Reverse(endpoint.connections));
    endpoints.truncate(CLIENT_ENDPOINTS_MAX);
    endpoints
}
