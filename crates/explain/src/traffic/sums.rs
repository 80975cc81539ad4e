//! The sums of a report, from the flows of a tracker.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use api::object::{ObjectKey, Protocol};
use ipnet::IpNet;

use super::attribution::FrontendName;
use super::node_flows::{
    API_VERSION, ClientTraffic, EndpointConnections, EndpointTraffic, FlowRow, FrontendTraffic, KIND,
    NodeFlows, ServiceTraffic,
};
use super::statistics::TrafficStatistics;
use super::tracker::{End, Flow, Tracker};

/// Maximum number of endpoints of a client.
const CLIENT_ENDPOINTS_MAX: usize = 5;
/// Maximum number of frontends of a Service.
const FRONTENDS_MAX: usize = 16;

/// Maximum numbers of rows in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Services.
    pub services: usize,
    /// Endpoints of a Service.
    pub endpoints_per_service: usize,
    /// Endpoints of all Services.
    pub endpoints: usize,
    /// Clients of a Service.
    pub clients_per_service: usize,
    /// Clients of all Services.
    pub clients: usize,
}

impl Default for Limits {
    /// Returns limits that keep a report below 7 MiB, the limit of agents, without single flows.
    fn default() -> Self {
        Self {
            services: 4_000,
            endpoints_per_service: 1_000,
            endpoints: 8_000,
            clients_per_service: 200,
            clients: 4_000,
        }
    }
}

/// Single flows in a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowSelection {
    /// Maximum number of flows; 0 for no flows.
    pub rows_max: usize,
    /// Addresses of the clients; empty for all.
    pub clients: Vec<IpNet>,
    /// Protocol; `None` for all.
    pub protocol: Option<Protocol>,
}

impl RowSelection {
    fn contains(&self, flow: &Flow) -> bool {
        let is_of_client = |net: &IpNet| net.contains(&flow.client.ip());
        (self.clients.is_empty() || self.clients.iter().any(is_of_client))
            && self.protocol.is_none_or(|protocol| protocol == flow.protocol)
    }
}

/// Sums of a client of a Service.
#[derive(Default)]
struct Client {
    statistics: TrafficStatistics,
    endpoints: HashMap<SocketAddr, u64>,
}

/// Sums of a Service.
#[derive(Default)]
struct ServiceStatistics<'t> {
    statistics: TrafficStatistics,
    frontends: HashMap<&'t FrontendName, TrafficStatistics>,
    endpoints: HashMap<(Option<SocketAddr>, Protocol), TrafficStatistics>,
    clients: HashMap<IpAddr, Client>,
}

impl<'t> ServiceStatistics<'t> {
    fn add(&mut self, flow: &'t Flow, statistics: &TrafficStatistics) {
        let attributed = &flow.attributed;
        self.statistics.add(statistics);
        self.frontends
            .entry(&attributed.frontend)
            .or_default()
            .add(statistics);
        let endpoint = (attributed.endpoint, flow.protocol);
        self.endpoints.entry(endpoint).or_default().add(statistics);
        let client = self.clients.entry(flow.client.ip()).or_default();
        client.statistics.add(statistics);
        if let Some(endpoint) = attributed.endpoint.filter(|_| statistics.open > 0) {
            *client.endpoints.entry(endpoint).or_default() += statistics.open;
        }
    }
}

/// Numbers of rows that remain for all Services together.
struct RemainingRows {
    endpoints: usize,
    clients: usize,
}

impl Tracker {
    /// Returns the report of the interval that the last sample ended. The reader adds the name of the node, the wall
    /// clock, the mode, and the state of events and byte counters.
    pub fn report(&self, limits: &Limits, rows: &RowSelection) -> NodeFlows {
        let mut services: HashMap<&ObjectKey, ServiceStatistics<'_>> = HashMap::new();
        let mut flows_without_bytes = 0;
        for flow in self.flows() {
            let statistics = flow.statistics(self.at());
            let service = &flow.attributed.frontend.service;
            services.entry(service).or_default().add(flow, &statistics);
            flows_without_bytes += u64::from(statistics.open > 0 && flow.bytes.is_none());
        }
        let mut truncated = Vec::new();
        if self.is_truncated() {
            truncated.push("flows");
        }
        let mut remaining = RemainingRows {
            endpoints: limits.endpoints,
            clients: limits.clients,
        };
        let (services, services_omitted) =
            largest_entries(services, limits.services, |sums| activity(&sums.statistics));
        let services: Vec<ServiceTraffic> = services
            .into_iter()
            .map(|(key, sums)| service_traffic(key, sums, limits, &mut remaining))
            .collect();
        let (flows, flows_omitted) = self.rows(rows);
        let is_any = |omitted: fn(&ServiceTraffic) -> u64| services.iter().any(|one| omitted(one) > 0);
        for (part, is_truncated) in [
            ("services", services_omitted > 0),
            (
                "endpoints",
                limits.endpoints > 0 && is_any(|service| service.endpoints_omitted),
            ),
            (
                "clients",
                limits.clients > 0 && is_any(|service| service.clients_omitted),
            ),
            ("flowRows", flows_omitted > 0),
        ] {
            if is_truncated {
                truncated.push(part);
            }
        }
        NodeFlows {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            interval_seconds: self.interval().as_secs_f64(),
            flows_without_bytes,
            entries: self.entries(),
            truncated: truncated.into_iter().map(str::to_owned).collect(),
            services,
            flows,
            ..NodeFlows::default()
        }
    }

    /// Returns the selected flows, the ones with the most bytes in the interval first, and the number of the others.
    fn rows(&self, selection: &RowSelection) -> (Vec<FlowRow>, usize) {
        if selection.rows_max == 0 {
            return (Vec::new(), 0);
        }
        let at = self.at();
        let selected = self.flows().filter(|flow| selection.contains(flow));
        let mut flows: Vec<(TrafficStatistics, &Flow)> =
            selected.map(|flow| (flow.statistics(at), flow)).collect();
        flows.sort_unstable_by_key(|(statistics, flow)| {
            let recent = (bytes(statistics), statistics.failed(), statistics.opened);
            (Reverse(recent), flow.client, flow.attributed.endpoint)
        });
        let omitted = flows.len().saturating_sub(selection.rows_max);
        flows.truncate(selection.rows_max);
        let rows = flows
            .into_iter()
            .map(|(statistics, flow)| row(flow, statistics, at));
        (rows.collect(), omitted)
    }
}

/// Returns the order of sums: open connections, then new ones, bytes and failures; the largest first.
fn activity(statistics: &TrafficStatistics) -> Reverse<(u64, u64, u64, u64)> {
    Reverse((
        statistics.open,
        statistics.opened,
        bytes(statistics),
        statistics.failed(),
    ))
}

fn bytes(statistics: &TrafficStatistics) -> u64 {
    statistics
        .bytes_to_endpoints
        .saturating_add(statistics.bytes_to_clients)
}

/// Returns the first entries of a map in an order, at most `most`, with the number of the others.
fn largest_entries<K: Ord + Hash, V, O: Ord>(
    map: HashMap<K, V>,
    most: usize,
    order: impl Fn(&V) -> O,
) -> (Vec<(K, V)>, u64) {
    let mut all: Vec<(K, V)> = map.into_iter().collect();
    all.sort_by(|(key, value), (other_key, other)| {
        order(value).cmp(&order(other)).then_with(|| key.cmp(other_key))
    });
    let omitted = all.len().saturating_sub(most) as u64;
    all.truncate(most);
    (all, omitted)
}

/// Returns the row of a Service with its largest endpoints and clients.
fn service_traffic(
    key: &ObjectKey,
    sums: ServiceStatistics<'_>,
    limits: &Limits,
    remaining: &mut RemainingRows,
) -> ServiceTraffic {
    let endpoints_max = limits.endpoints_per_service.min(remaining.endpoints);
    let (endpoints, endpoints_omitted) = largest_entries(sums.endpoints, endpoints_max, activity);
    remaining.endpoints -= endpoints.len();
    let clients_max = limits.clients_per_service.min(remaining.clients);
    let (clients, clients_omitted) =
        largest_entries(sums.clients, clients_max, |client| activity(&client.statistics));
    remaining.clients -= clients.len();
    let (frontends, _) = largest_entries(sums.frontends, FRONTENDS_MAX, activity);
    ServiceTraffic {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        statistics: sums.statistics,
        frontends: frontends
            .into_iter()
            .map(|(frontend, statistics)| FrontendTraffic {
                kind: frontend.kind,
                address: frontend.address,
                port: frontend.port,
                protocol: frontend.protocol,
                port_name: frontend.port_name.to_string(),
                statistics,
            })
            .collect(),
        endpoints: endpoints
            .into_iter()
            .map(|((address, protocol), statistics)| EndpointTraffic {
                address,
                protocol,
                statistics,
            })
            .collect(),
        clients: clients.into_iter().map(client_traffic).collect(),
        clients_omitted,
        endpoints_omitted,
    }
}

fn client_traffic((address, client): (IpAddr, Client)) -> ClientTraffic {
    let (endpoints, _) = largest_entries(client.endpoints, CLIENT_ENDPOINTS_MAX, |connections| {
        Reverse(*connections)
    });
    let endpoints = endpoints.into_iter();
    ClientTraffic {
        address,
        statistics: client.statistics,
        endpoints: endpoints
            .map(|(address, connections)| EndpointConnections { address, connections })
            .collect(),
    }
}

fn row(flow: &Flow, statistics: TrafficStatistics, at: Duration) -> FlowRow {
    let frontend = &flow.attributed.frontend;
    let (age, may_be_older) = flow.age(at);
    let state = match flow.end {
        None => flow.state.name(),
        Some(End::Complete) => "ENDED",
        Some(End::Refused) => "REFUSED",
        Some(End::Expired) => "EXPIRED",
    };
    FlowRow {
        namespace: frontend.service.namespace.to_string(),
        name: frontend.service.name.to_string(),
        port_name: frontend.port_name.to_string(),
        protocol: flow.protocol,
        kind: frontend.kind,
        address: frontend.address,
        port: frontend.port,
        client: flow.client,
        masqueraded_as: Some(flow.source).filter(|source| source.ip() != flow.client.ip()),
        endpoint: flow.attributed.endpoint,
        state: state.to_owned(),
        age_seconds: age.as_secs_f64(),
        may_be_older,
        expires_in_seconds: flow.expires_in(at).as_secs(),
        bytes_to_endpoint: flow.bytes.map(|[to_endpoint, _]| to_endpoint),
        bytes_to_client: flow.bytes.map(|[_, to_client]| to_client),
        statistics,
    }
}
