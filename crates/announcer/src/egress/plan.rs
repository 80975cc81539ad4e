//! Decision about the packets of each Pod that leave the cluster (LBK-05).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use api::object::ObjectKey;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netlink::route::{Action, Route};

use super::objects::{EgressNode, EgressObjects};
use crate::NodeName;

#[cfg(test)]
mod tests;

/// Maximum number of addresses of Pods with egress, which bounds the tables. Egress does not apply to further ones, and
/// their Service is reported.
pub(crate) const PODS_MAX: usize = 65_536;

/// Action of this node on packets of a Pod to destinations outside of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PodEgress {
    /// This node owns the address, and translates the source to it.
    Translated(IpAddr),
    /// The packets go to the owner.
    Routed {
        /// Node of the owner.
        node: NodeName,
        /// Route to it.
        route: Action,
    },
    /// The packets are dropped.
    Blocked,
}

/// Reason why packets of a Service's Pods are dropped, or keep their source address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EgressFault {
    /// The Service has no assigned address of the family.
    NoAddress(&'static str),
    /// No node owns the address.
    NoOwner(IpAddr),
    /// No route of this node leads to the owner.
    NoRoute(NodeName),
    /// Pods have addresses outside of the Pod ranges of the Nodes: their egress does not apply.
    NoPodRange(IpAddr),
    /// There are more Pods than the tables have room for.
    TooManyPods,
    /// The kernel of this node refused the tables or routes, for this reason.
    Kernel(String),
}

impl EgressFault {
    /// Returns true if all nodes see the fault.
    pub(crate) fn is_seen_by_all(&self) -> bool {
        !matches!(self, Self::NoRoute(_) | Self::Kernel(_))
    }

    /// Returns the reason for Events.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::NoAddress(_) | Self::NoOwner(_) | Self::NoRoute(_) => "EgressBlocked",
            Self::NoPodRange(_) | Self::TooManyPods | Self::Kernel(_) => "EgressNotApplied",
        }
    }
}

impl fmt::Display for EgressFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress(family) => write!(
                f,
                "packets of its Pods to outside of the cluster are dropped: expected an {family} address from an \
                 AddressPool in the status, found none"
            ),
            Self::NoOwner(address) => write!(
                f,
                "packets of its Pods to outside of the cluster are dropped: no node answers for {address}"
            ),
            Self::NoRoute(node) => write!(
                f,
                "packets of its Pods to outside of the cluster are dropped: no route and no common link leads to node \
                 {node:?}, which answers for the address"
            ),
            Self::NoPodRange(address) => write!(
                f,
                "egress does not apply to Pod address {address}: expected an address in spec.podCIDRs of a Node that is \
                 no address of a Node"
            ),
            Self::TooManyPods => write!(
                f,
                "egress does not apply to all of its Pods: expected at most {PODS_MAX} addresses of Pods with egress"
            ),
            Self::Kernel(error) => write!(f, "egress does not apply to Pods of this node: {error}"),
        }
    }
}

/// Decisions about all Pods with egress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EgressPlan {
    /// Decision about each Pod. A Pod of several Services has that of the first one by name. Of several addresses of a
    /// Service, the lowest one of the family is the source.
    pub(crate) pods: BTreeMap<IpAddr, PodEgress>,
    /// Owners of the load balancer IPs, and the routes to them. Replies that reach this node belong to the owner.
    pub(crate) replies: BTreeMap<IpAddr, (NodeName, Action)>,
    /// Destinations that are inside of the cluster.
    pub(crate) inside: BTreeSet<IpNet>,
    /// First fault of each Service.
    pub(crate) faults: BTreeMap<ObjectKey, EgressFault>,
}

/// View of the cluster that decides about Pods.
pub(crate) struct EgressView<'v> {
    /// Name of this node.
    pub(crate) own: &'v NodeName,
    /// Returns the owner of an address.
    pub(crate) owner: &'v dyn Fn(IpAddr) -> Option<NodeName>,
    /// Returns the route to another node for packets from a load balancer IP.
    pub(crate) route: &'v dyn Fn(&NodeName, IpAddr) -> Option<Action>,
}

impl EgressPlan {
    /// Adds faults of the Services whose packets these nodes do not get, because the kernel refuses the routes to them.
    pub(crate) fn add_unroutable(&mut self, objects: &EgressObjects, owners: &BTreeSet<NodeName>) {
        for (key, service) in objects.services() {
            let mut replies = service
                .addresses
                .iter()
                .filter_map(|address| self.replies.get(address));
            if let Some((node, _)) = replies.find(|(node, _)| owners.contains(node)) {
                let fault = EgressFault::NoRoute(NodeName::clone(node));
                self.faults.entry(key.clone()).or_insert(fault);
            }
        }
    }

    /// Decides about the Pods of all Services. `balanced` are all load balancer IPs.
    pub(crate) fn new(
        objects: &EgressObjects,
        balanced: impl Iterator<Item = IpAddr>,
        view: &EgressView<'_>,
    ) -> Self {
        let mut plan = Self::default();
        if objects.services().next().is_none() {
            return plan;
        }
        plan.inside = inside(objects, balanced);
        for (key, service) in objects.services() {
            let mut first_fault = None;
            let decisions = [true, false].map(|is_ipv4| {
                let mut addresses = service.addresses.iter().copied();
                let source = addresses.find(|address| address.is_ipv4() == is_ipv4);
                let decision = egress_of(source, is_ipv4, view);
                if let (Some(source), Ok(PodEgress::Routed { node, route })) = (source, &decision) {
                    plan.replies.insert(source, (NodeName::clone(node), *route));
                }
                decision
            });
            for pod in objects.pods_of(key) {
                if !is_pod_address(objects.nodes(), pod) {
                    first_fault.get_or_insert(EgressFault::NoPodRange(pod));
                    continue;
                }
                if plan.pods.contains_key(&pod) {
                    continue;
                }
                if plan.pods.len() >= PODS_MAX {
                    first_fault.get_or_insert(EgressFault::TooManyPods);
                    break;
                }
                let [of_ipv4, of_ipv6] = &decisions;
                let decision = if pod.is_ipv4() { of_ipv4 } else { of_ipv6 };
                let egress = match decision {
                    Ok(egress) => egress.clone(),
                    Err(fault) => {
                        first_fault.get_or_insert_with(|| fault.clone());
                        PodEgress::Blocked
                    }
                };
                plan.pods.insert(pod, egress);
            }
            if let Some(fault) = first_fault {
                plan.faults.insert(key.clone(), fault);
            }
        }
        plan
    }
}

/// Returns the decision about the Pods of a Service in one IP family, from its address.
fn egress_of(
    address: Option<IpAddr>,
    is_ipv4: bool,
    view: &EgressView<'_>,
) -> Result<PodEgress, EgressFault> {
    let family = if is_ipv4 { "IPv4" } else { "IPv6" };
    let address = address.ok_or(EgressFault::NoAddress(family))?;
    let owner = (view.owner)(address).ok_or(EgressFault::NoOwner(address))?;
    if owner == *view.own {
        return Ok(PodEgress::Translated(address));
    }
    match (view.route)(&owner, address) {
        Some(route) => Ok(PodEgress::Routed { node: owner, route }),
        None => Err(EgressFault::NoRoute(owner)),
    }
}

/// Returns true for an address in a Pod range that belongs to no Node: Pods in the network of their node have its
/// address.
fn is_pod_address(nodes: &BTreeMap<NodeName, EgressNode>, address: IpAddr) -> bool {
    let is_in_range = |node: &EgressNode| node.pod_ranges.iter().any(|range| range.contains(&address));
    nodes.values().any(is_in_range) && !nodes.values().any(|node| node.addresses.contains(&address))
}

/// Returns the destinations inside of the cluster: Pods, Nodes, load balancer IPs, and addresses that no router forwards.
/// Cluster IPs are translated before.
fn inside(objects: &EgressObjects, balanced: impl Iterator<Item = IpAddr>) -> BTreeSet<IpNet> {
    let v4 = |octets: [u8; 4], length: u8| Ipv4Net::new(Ipv4Addr::from(octets), length).map(IpNet::V4).ok();
    let v6 = |first: u16, length: u8| {
        let address = Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0);
        Ipv6Net::new(address, length).map(IpNet::V6).ok()
    };
    let unforwarded = [
        v4([127, 0, 0, 0], 8),
        v4([169, 254, 0, 0], 16),
        v4([224, 0, 0, 0], 4),
        v4([255, 255, 255, 255], 32),
        v6(0xfe80, 10),
        v6(0xff00, 8),
    ];
    let of_nodes = objects.nodes().values().flat_map(|node| {
        let addresses = node.addresses.iter().map(|address| IpNet::from(*address));
        node.pod_ranges.iter().copied().chain(addresses)
    });
    unforwarded
        .into_iter()
        .flatten()
        .chain(of_nodes)
        .chain(balanced.map(IpNet::from))
        .collect()
}

/// Returns the route to the Pods of a node among the routes of table `main`: packets to the owner take the way of packets
/// to its Pods, through VXLAN or directly. The gateway counts as reachable on its link.
pub(crate) fn route_to_pods(routes: &[Route], node: &EgressNode, is_ipv4: bool) -> Option<Action> {
    let range = node
        .pod_ranges
        .iter()
        .find(|range| range.addr().is_ipv4() == is_ipv4)?;
    let covering = routes
        .iter()
        .filter(|route| route.destination.prefix_len() > 0 && route.destination.contains(range));
    let best = covering.max_by_key(|route| route.destination.prefix_len())?;
    match best.action {
        Action::Via {
            gateway,
            link: Some(link),
        }
        | Action::ViaOnLink { gateway, link } => Some(Action::ViaOnLink { gateway, link }),
        Action::Via { link: None, .. }
        | Action::OnLink(_)
        | Action::Local(_)
        | Action::Blackhole
        | Action::Unreachable => None,
    }
}
