//! Selection of probes from a host outside of the cluster: to the addresses that Services have for such clients.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use api::object::{Node, Protocol, Service, ServicePort};
use explain::observation::{Probe, ProbeKind, ProbeSource};
use ipnet::IpNet;

use super::super::cluster::{Cluster, ServiceEndpoint};
use super::targets::{Job, Request, probe, service_name};

/// Maximum number of probes of one command.
const JOBS_MAX: usize = 128;
/// Maximum number of Nodes of a node port that are probed.
const NODES_MAX: usize = 4;
/// Value of a traffic policy that needs an endpoint on the node.
const LOCAL: &str = "Local";
/// Types of addresses of Nodes.
const ADDRESS_TYPES: [&str; 2] = ["InternalIP", "ExternalIP"];

/// Returns the probes of node ports, load balancer IPs and external IPs of the examined Services. The result excludes
/// ports without a ready endpoint and addresses of this host. It also excludes load balancer IPs whose source ranges
/// exclude this host.
pub(super) fn jobs(cluster: &Cluster, own: &[IpAddr]) -> Vec<Job> {
    let mut jobs = Vec::new();
    for service in cluster.examined() {
        let key = service.metadata.key();
        let endpoints = cluster.endpoints_of(&key);
        for port in &service.spec.ports {
            let is_of_port = |endpoint: &&ServiceEndpoint| {
                endpoint.is_ready && endpoint.port_name == port.name && endpoint.protocol == port.protocol
            };
            let ready: Vec<&ServiceEndpoint> = endpoints.iter().filter(is_of_port).collect();
            let targets = targets(cluster, service, port, &ready, own);
            jobs.extend(targets.into_iter().filter_map(|target| {
                let (kind, request) = match port.protocol {
                    Protocol::Tcp => (ProbeKind::Tcp, Request::Tcp(target)),
                    Protocol::Udp => (ProbeKind::Udp, Request::Udp(target)),
                    Protocol::Sctp => return None,
                };
                let probe = Probe {
                    service: Some(service_name(&key)),
                    ..probe(kind, ProbeSource::Outside, target.to_string())
                };
                Some(Job { probe, request })
            }));
        }
    }
    jobs.retain(|job| job.request.is_permitted());
    let mut seen = BTreeSet::new();
    jobs.retain(|job| seen.insert((job.probe.kind, job.probe.target.clone())));
    jobs.truncate(JOBS_MAX);
    jobs
}

/// Returns the addresses and ports of a Service port for clients outside of the cluster.
fn targets(
    cluster: &Cluster,
    service: &Service,
    port: &ServicePort,
    ready: &[&ServiceEndpoint],
    own: &[IpAddr],
) -> Vec<SocketAddr> {
    let has_family = |address: &IpAddr| {
        let mut endpoints = ready.iter();
        endpoints.any(|endpoint| endpoint.address.is_ipv4() == address.is_ipv4())
    };
    let external = service.spec.external_ips.iter();
    let mut addresses: Vec<IpAddr> = external.filter_map(|text| text.parse().ok()).collect();
    addresses.retain(|address| may_be_probed(cluster, address));
    if may_be_admitted(service, own) {
        let ingress = service.status.load_balancer.ingress.iter();
        addresses.extend(ingress.filter_map(|entry| entry.ip.parse::<IpAddr>().ok()));
    }
    addresses.retain(has_family);
    let addresses = addresses.into_iter().map(|address| (address, port.port));
    let mut node_targets = Vec::new();
    if port.node_port != 0 {
        let is_local = service.spec.external_traffic_policy == LOCAL;
        let serves = |node: &&Node| {
            let name = &node.metadata.name;
            !is_local || ready.iter().any(|endpoint| endpoint.node == *name)
        };
        let nodes = cluster.nodes.iter().filter(serves).take(NODES_MAX);
        let mut found: Vec<IpAddr> = nodes.flat_map(addresses_of).collect();
        found.retain(has_family);
        node_targets.extend(found.into_iter().map(|address| (address, port.node_port)));
    }
    let targets = addresses.chain(node_targets);
    targets
        .filter(|(address, _)| !own.contains(address))
        .map(|(address, port)| SocketAddr::new(address, port))
        .collect()
}

/// Returns true if an external IP may receive packets. The author of a Service chooses its external IPs, which can be
/// addresses of others. Without a Service that the command names, only addresses of Nodes are probed.
fn may_be_probed(cluster: &Cluster, external: &IpAddr) -> bool {
    let mut node_addresses = cluster.nodes.iter().flat_map(addresses_of);
    cluster.service.is_some() || node_addresses.any(|address| address == *external)
}

/// Returns the addresses of a Node.
fn addresses_of(node: &Node) -> impl Iterator<Item = IpAddr> + '_ {
    let addresses = node.status.addresses.iter();
    let addresses = addresses.filter(|address| ADDRESS_TYPES.contains(&address.kind.as_str()));
    addresses.filter_map(|address| address.address.parse().ok())
}

/// Returns true if the source ranges of a load balancer have an address of this host. Routers can change the address on
/// the way, so that other results would show nothing.
fn may_be_admitted(service: &Service, own: &[IpAddr]) -> bool {
    let ranges = &service.spec.load_balancer_source_ranges;
    let mut nets = ranges.iter().filter_map(|text| text.trim().parse::<IpNet>().ok());
    ranges.is_empty() || nets.any(|net| own.iter().any(|address| net.contains(address)))
}

#[cfg(test)]
mod tests;
