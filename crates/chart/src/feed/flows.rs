//! Reports of the flows of nodes, which become the traffic of Services. They are read while the caches exist.
//!
//! A node can send false reports. Each report is bounded before it is kept, and the rows that are dropped are counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::object::ObjectKey;
use client::{Client, ClientError};
use explain::traffic::{
    ClientRow as MergedClient, ClusterTraffic as Merged, Names, NodeFlows, PeerKind, Rates,
};
use futures_util::stream::{self, StreamExt};

use super::state::SharedFeed;
use crate::view::objects::Objects;
use crate::view::traffic::{CLIENTS_MAX, ClientKind, ClientRow, ClusterTraffic, ServiceTraffic, Traffic};

/// Time between the starts of two reports.
const PERIOD: Duration = Duration::from_secs(2);
/// Time until the next attempt if no node reports: a server without reports does not change often.
const RETRY_PERIOD: Duration = Duration::from_secs(30);
/// Interval of a report in milliseconds. The response takes that long.
const INTERVAL_MILLISECONDS: u32 = 1_000;
/// Time for a report.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of reports that are read at once.
const CONCURRENT_MAX: usize = 16;
/// Maximum number of Nodes whose reports are read. Each report may have a few megabytes.
const NODES_MAX: usize = 500;
/// Services, endpoints and clients of a report that are kept: 5 MiB. A node reports at most 1,000 Services with 32
/// clients each.
const ROWS_OF_NODE_MAX: usize = 50_000;
/// Maximum number of endpoints of a Service with traffic that are kept, those of all nodes together: as many as the
/// page shows.
const ENDPOINTS_OF_SERVICE_MAX: usize = 1_000;
/// Status code of a busy server or agent.
const TOO_MANY_REQUESTS: u16 = 429;
/// Time until the next attempt after that.
const BUSY_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of addresses of endpoints of a client.
const CLIENT_ENDPOINTS_MAX: usize = 20;
/// Largest rate that is shown: reports of nodes may state any number.
const RATE_MAX: f64 = 1e15;

/// Rows of reports that were dropped, because a node reported too many, or Services that do not exist.
#[derive(Debug, Default)]
pub(super) struct DroppedRows(AtomicU64);

impl DroppedRows {
    /// Returns the number of rows since the start of the process.
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, rows: usize) {
        let rows = u64::try_from(rows).unwrap_or(u64::MAX);
        self.0.fetch_add(rows, Ordering::Relaxed);
    }
}

/// Reads the reports of all nodes, again and again; never returns.
pub(super) async fn repeat(client: &Client, shared: &SharedFeed, dropped: &DroppedRows) {
    loop {
        let started = tokio::time::Instant::now();
        let nodes = shared.synced(|state| {
            let names = state.model.objects().node_names().take(NODES_MAX);
            names.map(|name| name.to_string()).collect::<Vec<_>>()
        });
        let Some(nodes) = nodes else {
            // The caches are being filled.
            tokio::time::sleep(PERIOD).await;
            continue;
        };
        let reports = read_all(client, nodes, shared, dropped).await;
        let has_reports = reports.iter().any(|(_, report)| report.is_ok());
        shared.with(|state| {
            let traffic = has_reports.then(|| {
                let objects = state.model.objects();
                of_services(&Merged::merge(reports, &names(objects)), objects)
            });
            state.model.set_traffic(traffic);
        });
        let period = if has_reports { PERIOD } else { RETRY_PERIOD };
        tokio::time::sleep_until(started + period).await;
    }
}

async fn read_all(
    client: &Client,
    nodes: Vec<String>,
    shared: &SharedFeed,
    dropped: &DroppedRows,
) -> Vec<(String, Result<NodeFlows, String>)> {
    let read = |node: String| async move {
        let report = match tokio::time::timeout(TIMEOUT, read(client, &node)).await {
            Ok(Ok(report)) if report.metadata.name == node => Ok(report),
            Ok(Ok(_)) => Err("the report names another node".to_owned()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no report within {TIMEOUT:?}")),
        };
        if let Err(reason) = &report {
            tracing::debug!(node, reason, "flows of a node not read");
        }
        let report = report.map(|report| {
            let bounded = shared.synced(|state| limit_rows(report, state.model.objects()));
            let (report, rows) = bounded.unwrap_or_default();
            if rows > 0 {
                tracing::debug!(node, rows, "rows of a report dropped");
                dropped.add(rows);
            }
            report
        });
        (node, report)
    };
    stream::iter(nodes)
        .map(read)
        .buffer_unordered(CONCURRENT_MAX)
        .collect()
        .await
}

async fn read(client: &Client, node: &str) -> Result<NodeFlows, ClientError> {
    let mut path = String::from("/api/v1/nodes/");
    client::push_escaped(&mut path, node);
    path.push_str(&format!("/flows?intervalMilliseconds={INTERVAL_MILLISECONDS}"));
    loop {
        match client.get(&path).await {
            Err(error) if error.code() == Some(TOO_MANY_REQUESTS) => tokio::time::sleep(BUSY_DELAY).await,
            outcome => return outcome,
        }
    }
}

/// Reduces a report to the rows that are shown. Returns the number of dropped rows.
fn limit_rows(mut report: NodeFlows, objects: &Objects) -> (NodeFlows, usize) {
    let mut dropped = report.flows.len();
    report.flows = Vec::new();
    report.truncated = Vec::new();
    report.mode = String::new();
    report.observed_at = String::new();
    let mut free = ROWS_OF_NODE_MAX;
    let mut kept = Vec::new();
    for mut service in std::mem::take(&mut report.services) {
        let service_rows = 1 + service.endpoints.len() + service.clients.len();
        let key = ObjectKey::new(&service.namespace, &service.name);
        if free == 0 || objects.service(&key).is_none() {
            dropped += service_rows;
            continue;
        }
        free -= 1;
        service.frontends = Vec::new();
        service.endpoints.truncate(ENDPOINTS_OF_SERVICE_MAX.min(free));
        free -= service.endpoints.len();
        // The agent names the busiest clients first.
        service.clients.truncate(CLIENTS_MAX.min(free));
        free -= service.clients.len();
        for client in &mut service.clients {
            client.endpoints.truncate(CLIENT_ENDPOINTS_MAX);
        }
        dropped += service_rows - 1 - service.endpoints.len() - service.clients.len();
        kept.push(service);
    }
    report.services = kept;
    (report, dropped)
}

fn names(objects: &Objects) -> Names {
    let mut names = Names::default();
    for name in objects.node_names() {
        let node = objects.node(name);
        let addresses = node.into_iter().flat_map(|node| &node.status.addresses);
        names.add_node(name, addresses.filter_map(|entry| entry.address.parse().ok()));
        let ranges = node.into_iter().flat_map(|node| &node.spec.pod_cidrs);
        ranges
            .filter_map(|range| range.parse().ok())
            .for_each(|range| names.add_pod_range(range));
    }
    for (key, place) in objects.pods() {
        names.add_pod(
            &key.namespace,
            &key.name,
            &place.node,
            place.addresses.iter().copied(),
        );
    }
    names
}

/// Returns the traffic of the known Services. A report may name others.
fn of_services(merged: &Merged, objects: &Objects) -> ClusterTraffic {
    let mut services = ClusterTraffic::new();
    for service in &merged.services {
        let key = ObjectKey::new(&service.namespace, &service.name);
        if objects.service(&key).is_none() {
            continue;
        }
        let mut endpoints: BTreeMap<String, Traffic> = BTreeMap::new();
        for endpoint in &service.endpoints {
            if let Some(address) = endpoint.address {
                let address = address.ip().to_string();
                if endpoints.len() >= ENDPOINTS_OF_SERVICE_MAX && !endpoints.contains_key(&address) {
                    continue;
                }
                let sum = endpoints.entry(address).or_default();
                *sum = add_traffic(*sum, traffic_of_rates(&endpoint.rates));
            }
        }
        let mut clients: Vec<ClientRow> = service.clients.iter().map(client_row).collect();
        clients.sort_by(|a, b| {
            let busyness = |row: &ClientRow| (row.traffic.connections, row.traffic.connections_per_second);
            let order = busyness(b).partial_cmp(&busyness(a));
            order
                .unwrap_or(std::cmp::Ordering::Equal)
                .then_with(|| a.address.cmp(&b.address))
        });
        clients.truncate(CLIENTS_MAX);
        let total = traffic_of_rates(&service.rates);
        services.insert(
            key,
            ServiceTraffic {
                total,
                endpoints,
                clients,
            },
        );
    }
    services
}

fn client_row(client: &MergedClient) -> ClientRow {
    let endpoints = client.endpoints.iter().take(CLIENT_ENDPOINTS_MAX);
    ClientRow {
        address: client.address.to_string(),
        kind: match client.peer.kind {
            PeerKind::Pod => ClientKind::Pod,
            PeerKind::Node => ClientKind::Node,
            PeerKind::External => ClientKind::External,
        },
        name: client.peer.name.clone(),
        node: client.peer.node.clone(),
        traffic: traffic_of_rates(&client.rates),
        endpoints: endpoints
            .map(|endpoint| (endpoint.address.ip().to_string(), endpoint.connections))
            .collect(),
    }
}

fn traffic_of_rates(rates: &Rates) -> Traffic {
    Traffic {
        connections: rates.connections,
        connections_per_second: round_to_tenths(rates.connections_per_second),
        bytes_per_second: rates.bytes_per_second().map(round_to_tenths),
        failed: rates.failed,
    }
}

fn add_traffic(one: Traffic, other: Traffic) -> Traffic {
    let bytes = [one.bytes_per_second, other.bytes_per_second];
    Traffic {
        connections: one.connections.saturating_add(other.connections),
        connections_per_second: round_to_tenths(one.connections_per_second + other.connections_per_second),
        bytes_per_second: bytes
            .into_iter()
            .flatten()
            .reduce(|one, other| round_to_tenths(one + other)),
        failed: one.failed.saturating_add(other.failed),
    }
}

/// Rounds a rate to tenths, so that rows do not change with each report. A number that is not finite has no form in JSON.
fn round_to_tenths(rate: f64) -> f64 {
    let rate = if rate.is_nan() {
        0.0
    } else {
        rate.clamp(0.0, RATE_MAX)
    };
    (rate * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests;
