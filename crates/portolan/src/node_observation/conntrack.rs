//! Connection tracking: size, statistics, and the flows of Services.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use explain::observation::{self, Conntrack, MasqueradedConnections, TransportProtocol};
use ipnet::IpNet;
use netlink::conntrack::{self, Family};

use super::cluster::{Cluster, frontend_addresses};
use super::gap::{Gaps, ReadFailure};
use super::sysctls::read_text;

/// Maximum number of flows to endpoints of Services.
const FLOWS_MAX: usize = 1_000;
/// Maximum number of flows to other destinations. These are of interest, because endpoints may have left.
const OTHER_FLOWS_MAX: usize = 1_000;
/// Maximum number of counts of masqueraded connections.
const MASQUERADED_MAX: usize = 50;
/// Maximum number of different masqueraded destinations that are counted.
const COUNTS_MAX: usize = 100_000;
/// Protocols with ports, by their numbers in the IP header.
const PROTOCOLS: [(u8, TransportProtocol); 3] = [
    (libc::IPPROTO_TCP as u8, TransportProtocol::Tcp),
    (libc::IPPROTO_UDP as u8, TransportProtocol::Udp),
    (libc::IPPROTO_SCTP as u8, TransportProtocol::Sctp),
];

/// Statistics of all processors since the boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Statistics {
    insert_failed: u64,
    drops: u64,
}

/// Reads the statistics; `None` if connection tracking is not active.
pub(super) fn read_statistics() -> Option<Statistics> {
    let text = read_text(Path::new("/proc/thread-self/net/stat/nf_conntrack"))?;
    parse_statistics(&text)
}

/// Parses a heading with names, and a line of hexadecimal numbers for each processor.
fn parse_statistics(text: &str) -> Option<Statistics> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next()?.split_ascii_whitespace().collect();
    let column = |name: &str| names.iter().position(|found| *found == name);
    let (insert_failed, drops) = (column("insert_failed")?, column("drop")?);
    let mut statistics = Statistics::default();
    for line in lines {
        let numbers: Vec<u64> = line
            .split_ascii_whitespace()
            .map(|number| u64::from_str_radix(number, 16).unwrap_or(0))
            .collect();
        let number = |column: usize| numbers.get(column).copied().unwrap_or(0);
        statistics.insert_failed = statistics.insert_failed.saturating_add(number(insert_failed));
        statistics.drops = statistics.drops.saturating_add(number(drops));
    }
    Some(statistics)
}

/// Destinations of Services.
#[derive(Clone, Debug, Default)]
pub(super) struct Destinations {
    addresses: HashSet<IpAddr>,
    node_addresses: HashSet<IpAddr>,
    node_ports: HashSet<(u8, u16)>,
    endpoints: HashSet<SocketAddr>,
    /// Ranges of cluster IPs. Clients may use one that no Service has any more.
    service_ranges: Vec<IpNet>,
}

impl Destinations {
    /// Returns the destinations of the Services of a cluster. `node_addresses` are those of this node.
    pub(super) fn of(cluster: &Cluster, node_addresses: &[IpAddr]) -> Self {
        let services = cluster.examined();
        let ports = services.iter().flat_map(|service| &service.spec.ports);
        let node_ports = ports.filter(|port| port.node_port != 0);
        let ranges = cluster.service_cidrs.iter().flat_map(|range| &range.spec.cidrs);
        Self {
            addresses: services
                .iter()
                .flat_map(|service| frontend_addresses(service))
                .collect(),
            node_addresses: node_addresses.iter().copied().collect(),
            node_ports: node_ports
                .map(|port| (port.protocol.number(), port.node_port))
                .collect(),
            endpoints: cluster.endpoint_addresses(),
            service_ranges: ranges.filter_map(|range| range.parse().ok()).collect(),
        }
    }

    fn contains(&self, protocol: u8, destination: SocketAddr) -> bool {
        let is_node_port = || {
            self.node_ports.contains(&(protocol, destination.port()))
                && self.node_addresses.contains(&destination.ip())
        };
        let is_cluster_ip = || {
            let mut ranges = self.service_ranges.iter();
            ranges.any(|range| range.contains(&destination.ip()))
        };
        self.addresses.contains(&destination.ip()) || is_node_port() || is_cluster_ip()
    }
}

/// Reads connection tracking. `before` are the statistics at the beginning of the observation.
pub(super) fn read(
    before: Option<Statistics>,
    destinations: &Destinations,
    gaps: &mut Gaps,
) -> Option<Conntrack> {
    let number = |name: &str| {
        let path = Path::new("/proc/sys/net/netfilter").join(name);
        read_text(&path)?.parse::<u64>().ok()
    };
    let (entries, maximum) = (number("nf_conntrack_count"), number("nf_conntrack_max"));
    let flows = gaps.take("conntrack flows", read_flows(destinations));
    if let Some(flows) = &flows
        && flows.is_truncated
    {
        gaps.truncate("flows");
    }
    let now = read_statistics();
    if entries.is_none() && maximum.is_none() && flows.is_none() {
        return None;
    }
    let increase = |of: fn(Statistics) -> u64| Some(of(now?).saturating_sub(of(before?)));
    let (flows, masqueraded) = flows.map(|flows| (flows.flows, flows.masqueraded)).unzip();
    Some(Conntrack {
        entries,
        maximum,
        insert_failed: now.map(|now| now.insert_failed),
        drops: now.map(|now| now.drops),
        recent_insert_failed: increase(|statistics| statistics.insert_failed),
        recent_drops: increase(|statistics| statistics.drops),
        flows,
        masqueraded,
    })
}

/// Flows that were read.
#[derive(Debug, Default)]
struct Flows {
    flows: Vec<observation::Flow>,
    masqueraded: Vec<MasqueradedConnections>,
    is_truncated: bool,
}

/// Protocol, source after translation, endpoint.
type Masqueraded = (TransportProtocol, IpAddr, SocketAddr);

/// Selects flows while the kernel lists them, so that memory is bounded.
#[derive(Debug, Default)]
struct Selection {
    to_endpoints: Vec<observation::Flow>,
    others: Vec<observation::Flow>,
    counts: HashMap<Masqueraded, u64>,
    is_truncated: bool,
}

fn read_flows(destinations: &Destinations) -> Result<Flows, ReadFailure> {
    let mut connection = conntrack::Conntrack::open()?;
    let mut all = Flows::default();
    let mut counts = HashMap::new();
    for (number, protocol) in PROTOCOLS {
        for family in [Family::V4, Family::V6] {
            let mut selection = Selection::default();
            // The selection keeps what it needs, so the list stays empty.
            connection.flows(family, number, |flow| {
                selection.add(flow, protocol, destinations);
                false
            })?;
            all.is_truncated |= selection.is_truncated;
            all.flows.extend(selection.others);
            all.flows.extend(selection.to_endpoints);
            counts.extend(selection.counts);
        }
    }
    all.masqueraded = largest_counts(counts);
    Ok(all)
}

impl Selection {
    fn add(&mut self, flow: &conntrack::Flow, protocol: TransportProtocol, destinations: &Destinations) {
        let is_masqueraded = flow.reply.destination.ip() != flow.original.source.ip()
            && flow.reply.source != flow.original.destination;
        if is_masqueraded {
            let key = (protocol, flow.reply.destination.ip(), flow.reply.source);
            if self.counts.len() < COUNTS_MAX || self.counts.contains_key(&key) {
                *self.counts.entry(key).or_default() += 1;
            }
        }
        if !destinations.contains(flow.protocol, flow.original.destination) {
            return;
        }
        let is_to_endpoint = destinations.endpoints.contains(&flow.reply.source);
        let (flows, most) = if is_to_endpoint {
            (&mut self.to_endpoints, FLOWS_MAX)
        } else {
            (&mut self.others, OTHER_FLOWS_MAX)
        };
        if flows.len() < most {
            flows.push(observed_flow(flow, protocol));
        } else {
            self.is_truncated = true;
        }
    }
}

fn observed_flow(flow: &conntrack::Flow, protocol: TransportProtocol) -> observation::Flow {
    let (original, reply) = (flow.original, flow.reply);
    observation::Flow {
        protocol,
        source: original.source.ip(),
        source_port: Some(original.source.port()),
        destination: original.destination.ip(),
        destination_port: Some(original.destination.port()),
        reply_source: reply.source.ip(),
        reply_source_port: Some(reply.source.port()),
        reply_destination: Some(reply.destination.ip()),
        reply_destination_port: Some(reply.destination.port()),
        state: flow.tcp_state.map(|state| state.name().to_owned()),
        assured: Some(flow.is_assured),
        replied: Some(flow.is_replied),
        timeout_seconds: Some(u64::from(flow.expires_in_seconds)),
    }
}

/// Returns the largest counts, in descending order.
fn largest_counts(counts: HashMap<Masqueraded, u64>) -> Vec<MasqueradedConnections> {
    let sorted: BTreeSet<(std::cmp::Reverse<u64>, Masqueraded)> = counts
        .into_iter()
        .map(|(key, count)| (std::cmp::Reverse(count), key))
        .collect();
    let largest = sorted.into_iter().take(MASQUERADED_MAX);
    largest
        .map(|(count, (protocol, source, endpoint))| MasqueradedConnections {
            protocol,
            source,
            destination: endpoint.ip(),
            destination_port: endpoint.port(),
            connections: count.0,
        })
        .collect()
}

#[cfg(test)]
mod tests;
