//! Facts of the Node object, and addresses of this node.

use std::net::{IpAddr, Ipv4Addr};

use api::object::Node;
use plan::{Family, NodeFacts, NodePortAddresses, PodDetection, Settings};

use crate::config::{Config, NodePortSelection, PodSelection};
use crate::localhost::RelayDestination;

/// Taint of a node that the cluster autoscaler is about to delete (HLT-01).
const TO_BE_DELETED_TAINT: &str = "ToBeDeletedByClusterAutoscaler";
/// Loopback address of node ports.
pub(crate) const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Returns the node's IPs, one per family: the bind address if it is specified, or else the Node's internal, or else
/// its external addresses (KPR-03).
pub(crate) fn ips(node: Option<&Node>, bind_address: IpAddr) -> Vec<IpAddr> {
    let mut ips: Vec<IpAddr> = Vec::new();
    ips.extend(Some(bind_address).filter(|ip| !ip.is_unspecified()));
    let addresses = node.map_or(&[][..], |node| &node.status.addresses);
    for kind in ["InternalIP", "ExternalIP"] {
        let addresses_of_kind = addresses.iter().filter(|address| address.kind == kind);
        for ip in addresses_of_kind.filter_map(|address| address.address.parse::<IpAddr>().ok()) {
            if ips.iter().all(|known| known.is_ipv4() != ip.is_ipv4()) {
                ips.push(ip);
            }
        }
    }
    ips
}

/// Returns all internal and external IPs of the Node, and the bind address if it is specified, sorted.
fn addresses(node: Option<&Node>, bind_address: IpAddr) -> Vec<IpAddr> {
    let status_addresses = node.map_or(&[][..], |node| &node.status.addresses);
    let listed = status_addresses
        .iter()
        .filter(|address| matches!(address.kind.as_str(), "InternalIP" | "ExternalIP"))
        .filter_map(|address| address.address.parse().ok());
    let bound = Some(bind_address).filter(|ip| !ip.is_unspecified());
    let mut all: Vec<IpAddr> = bound.into_iter().chain(listed).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the facts that the plan needs.
pub(crate) fn facts(node: Option<&Node>, bind_address: IpAddr) -> NodeFacts {
    NodeFacts {
        zone: node.and_then(Node::zone).map(str::to_owned),
        ips: ips(node, bind_address),
        addresses: addresses(node, bind_address),
    }
}

/// Returns the detection of Pods. Unreadable Pod CIDRs of the Node are skipped.
pub(crate) fn pods(selection: &PodSelection, node: Option<&Node>) -> PodDetection {
    match selection {
        PodSelection::Given(detection) => detection.clone(),
        PodSelection::NodeCidrs => {
            let texts = node.map_or(&[][..], |node| &node.spec.pod_cidrs);
            let first = node.map(|node| &node.spec.pod_cidr).filter(|_| texts.is_empty());
            let ranges = texts.iter().chain(first).filter_map(|text| text.parse().ok());
            PodDetection::Ranges(ranges.collect())
        }
    }
}

/// Returns the node's first address if Pod CIDRs are known, but none of its family (KPC-15).
pub(crate) fn ip_without_pod_cidrs(ips: &[IpAddr], pods: &PodDetection) -> Option<IpAddr> {
    let first = ips.first().copied()?;
    let is_missing = !pods.ranges().is_empty() && !pods.covers(Family::of(first));
    is_missing.then_some(first)
}

/// Returns true if load balancers should keep sending traffic: the Node is not about to be deleted.
pub(crate) fn is_eligible(node: &Node) -> bool {
    node.metadata.deletion_timestamp.is_none()
        && node
            .spec
            .taints
            .iter()
            .all(|taint| taint.key != TO_BE_DELETED_TAINT)
}

/// Returns the addresses of node ports. `primary` means none while the node's IPs are unknown (KPF-28).
pub(crate) fn node_ports(selection: &NodePortSelection, node_ips: &[IpAddr]) -> NodePortAddresses {
    match selection {
        NodePortSelection::Primary => NodePortAddresses::Primary(node_ips.to_vec()),
        NodePortSelection::All => NodePortAddresses::All,
        NodePortSelection::Within(nets) => NodePortAddresses::Within(nets.clone()),
    }
}

/// Returns true if node ports answer on 127.0.0.1.
pub(crate) fn is_on_loopback(config: &Config) -> bool {
    let is_chosen = match &config.node_port_addresses {
        NodePortSelection::All | NodePortSelection::Primary => true,
        NodePortSelection::Within(nets) => nets.iter().any(|net| net.contains(&LOCALHOST)),
    };
    config.localhost_node_ports && is_chosen
}

/// Returns the destination to which node ports on 127.0.0.1 are relayed. Ranges without another address of the node
/// lead to the cluster IP, so that node ports answer on loopback only (EPT-20).
pub(crate) fn localhost_node_ports(config: &Config, settings: &Settings) -> RelayDestination {
    if !is_on_loopback(config) {
        return RelayDestination::Nothing;
    }
    // Connections from an address that is also a Pod gateway would count as a Pod's.
    let mut own = settings
        .node_addresses
        .iter()
        .copied()
        .filter(|ip| ip.is_ipv4() && !settings.pods.is_pod(*ip, None));
    match own.find(|ip| settings.accepts_node_port(*ip)) {
        Some(ip) => RelayDestination::NodePort(ip),
        None if matches!(config.node_port_addresses, NodePortSelection::Within(_)) => {
            RelayDestination::ClusterIp
        }
        None => RelayDestination::Nothing,
    }
}

/// Returns all addresses of this node in the kernel, sorted. Addresses of the link of IPVS mode are left out: they
/// belong to Services.
pub(crate) fn own_addresses() -> Result<Vec<IpAddr>, netlink::route::RouteError> {
    let mut connection = netlink::route::Connection::open()?;
    let ipvs_link = connection
        .link(&dataplane::ipvs::LINK.parse()?)?
        .map(|link| link.index);
    let mut own: Vec<IpAddr> = connection
        .addresses()?
        .iter()
        .filter(|address| Some(address.link) != ipvs_link)
        .map(|address| address.network.addr())
        .collect();
    own.sort_unstable();
    own.dedup();
    Ok(own)
}

#[cfg(test)]
mod tests;
