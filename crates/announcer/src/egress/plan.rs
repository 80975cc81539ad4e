//! Decision about the packets of each Pod that leave the cluster (LBK-05).
//!
//! All nodes know the same Services and Pods, and each decides its own action. The owner of the address translates the
//! source, and the other nodes route the packets to the owner. Without an address, an owner or a route, the packets are
//! dropped, because they would leave with another source address. Egress does not apply to Pods outside of the Pod
//! ranges or on nodes without an announcer; their Services are reported. The decision is pure: the caller passes
//! owners, routes and members.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use api::object::ObjectKey;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netlink::route::{Action, Route};

use super::objects::{EgressNode, EgressObjects, EgressPod};
use crate::NodeName;

#[cfg(test)]
mod tests;

/// Maximum number of addresses of Pods with egress, which bounds the tables. All nodes select the same addresses, the
/// first ones by Service. The node of a further Pod drops its packets, and the Service is reported.
pub(crate) const PODS_MAX: usize = 65_536;
/// Maximum number of addresses of Pods beyond [`PODS_MAX`] whose packets their node drops: more than a node has. Egress
/// does not apply to further ones, and their Service is reported.
pub(crate) const EXCESS_MAX: usize = 4_096;

/// Action of this node on packets of a Pod to destinations outside of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PodEgress {
    /// This node owns the address, and translates the source to it.
    Translated(IpAddr),
    /// The packets go to the owner.
    Routed {
        /// Node of the owner.
        node: NodeName,
        /// Route to the owner.
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
    /// The Pods have more than [`PODS_MAX`] addresses: packets of further ones are dropped.
    TooManyPods,
    /// The Pods of this node have more than [`EXCESS_MAX`] addresses beyond [`PODS_MAX`]. Egress does not apply to the rest of
    /// these addresses.
    TooManyPodsOfNode,
    /// The node of a Pod has no announcer in the member list, so nothing may apply egress there.
    NoAnnouncer(NodeName),
    /// The kernel of this node refused the tables or routes, for this reason.
    Kernel(String),
}

impl EgressFault {
    /// Returns true if all nodes see the fault.
    pub(crate) fn is_seen_by_all(&self) -> bool {
        !matches!(self, Self::NoRoute(_) | Self::TooManyPodsOfNode | Self::Kernel(_))
    }

    /// Returns true if the packets are dropped, false if they leave as without egress.
    fn drops_packets(&self) -> bool {
        match self {
            Self::NoAddress(_) | Self::NoOwner(_) | Self::NoRoute(_) | Self::TooManyPods => true,
            Self::NoPodRange(_) | Self::NoAnnouncer(_) | Self::TooManyPodsOfNode | Self::Kernel(_) => false,
        }
    }

    /// Returns the reason for Events.
    pub(crate) fn reason(&self) -> &'static str {
        if self.drops_packets() {
            "EgressBlocked"
        } else {
            "EgressNotApplied"
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
                "packets of some of its Pods to outside of the cluster are dropped: expected at most {PODS_MAX} \
                 addresses of Pods with egress"
            ),
            Self::TooManyPodsOfNode => write!(
                f,
                "egress does not apply to all of its Pods on this node: expected at most {EXCESS_MAX} addresses beyond \
                 the first {PODS_MAX} of the cluster"
            ),
            Self::NoAnnouncer(node) => write!(
                f,
                "its Pods on node {node:?} may leave as without egress: expected an announcer of the node in the \
                 member list, found none"
            ),
            Self::Kernel(error) => write!(
                f,
                "the kernel of this node refuses the rules; the previous rules stay applied: {error}"
            ),
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
    /// Fault of each Service: the first one with which packets leave as without egress, otherwise the first one.
    pub(crate) faults: BTreeMap<ObjectKey, EgressFault>,
    /// Addresses to which this node translates Pods of each Service; no entry without such Pods.
    pub(crate) translated: BTreeMap<ObjectKey, BTreeSet<IpAddr>>,
    /// Number of addresses in `pods` beyond [`PODS_MAX`].
    pub(crate) excess: usize,
}

/// Egress of one Service in the view of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServiceEgress {
    /// Packets are dropped or leave as without egress, for this reason.
    Fault(EgressFault),
    /// No fault is known. This node translates Pods to these addresses; none if it owns no address, or without Pods.
    Applied(BTreeSet<IpAddr>),
}

/// View of the cluster that decides about Pods.
pub(crate) struct EgressView<'v> {
    /// Name of this node.
    pub(crate) own: &'v NodeName,
    /// Returns the owner of an address.
    pub(crate) owner: &'v dyn Fn(IpAddr) -> Option<NodeName>,
    /// Returns the route to another node for packets from a load balancer IP.
    pub(crate) route: &'v dyn Fn(&NodeName, IpAddr) -> Option<Action>,
    /// Returns true if a node has an announcer, running or not, or if the member list is unknown.
    pub(crate) has_announcer: &'v dyn Fn(&NodeName) -> bool,
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
            let mut worst_fault = None;
            let decisions = [true, false].map(|is_ipv4| {
                let mut addresses = service.addresses.iter().copied();
                let source = addresses.find(|address| address.is_ipv4() == is_ipv4);
                let decision = egress_of(source, is_ipv4, view);
                if let (Some(source), Ok(PodEgress::Routed { node, route })) = (source, &decision) {
                    plan.replies.insert(source, (NodeName::clone(node), *route));
                }
                decision
            });
            let mut sources = BTreeSet::new();
            for pod in objects.pods_of(key) {
                let fault = plan.add_pod(pod, &decisions, objects, view, &mut sources);
                worst_fault = more_severe(worst_fault, fault);
            }
            if !sources.is_empty() {
                plan.translated.insert(key.clone(), sources);
            }
            if let Some(fault) = worst_fault {
                plan.faults.insert(key.clone(), fault);
            }
        }
        plan
    }

    /// Adds a Pod of a Service with these decisions for IPv4 and IPv6, and its source address to `sources` if this node
    /// translates it. Returns the fault of the Pod. One of an earlier Service keeps the decision of that.
    ///
    /// Nothing drops the packets of a Pod whose node has no announcer, whatever the decision. The announcer of this
    /// node runs, as a member or not.
    fn add_pod(
        &mut self,
        pod: &EgressPod,
        decisions: &[Decision; 2],
        objects: &EgressObjects,
        view: &EgressView<'_>,
        sources: &mut BTreeSet<IpAddr>,
    ) -> Option<EgressFault> {
        if self.pods.contains_key(&pod.address) {
            return None;
        }
        let is_unannounced = |&node: &&NodeName| node != view.own && !(view.has_announcer)(node);
        let unannounced = pod.node.as_ref().filter(is_unannounced);
        let no_announcer = unannounced.map(|node| EgressFault::NoAnnouncer(NodeName::clone(node)));
        let is_beyond = self.pods.len() - self.excess >= PODS_MAX;
        // Packets of a Pod leave by its own node.
        if is_beyond && pod.node.as_ref().is_some_and(|node| node != view.own) {
            return no_announcer.or(Some(EgressFault::TooManyPods));
        }
        if !is_pod_address(objects.nodes(), pod.address) {
            return Some(EgressFault::NoPodRange(pod.address));
        }
        if is_beyond {
            if self.excess >= EXCESS_MAX {
                return Some(EgressFault::TooManyPodsOfNode);
            }
            self.excess += 1;
            self.pods.insert(pod.address, PodEgress::Blocked);
            return Some(EgressFault::TooManyPods);
        }
        let [of_ipv4, of_ipv6] = decisions;
        let decision = if pod.address.is_ipv4() { of_ipv4 } else { of_ipv6 };
        let (egress, fault) = match decision {
            Ok(egress) => (egress.clone(), None),
            Err(fault) => (PodEgress::Blocked, Some(fault.clone())),
        };
        if let PodEgress::Translated(source) = &egress {
            sources.insert(*source);
        }
        self.pods.insert(pod.address, egress);
        no_announcer.or(fault)
    }

    /// Returns the egress of each Service. `kernel_error` is the reason why the kernel refused the plan.
    pub(crate) fn services(
        &self,
        objects: &EgressObjects,
        kernel_error: Option<&str>,
    ) -> BTreeMap<ObjectKey, ServiceEgress> {
        let faults_of_service = |key: &ObjectKey| {
            let kernel_fault = kernel_error.map(|error| EgressFault::Kernel(error.to_owned()));
            match kernel_fault.or_else(|| self.faults.get(key).cloned()) {
                Some(fault) => ServiceEgress::Fault(fault),
                None => ServiceEgress::Applied(self.translated.get(key).cloned().unwrap_or_default()),
            }
        };
        let keys = objects.services().map(|(key, _)| key);
        keys.map(|key| (key.clone(), faults_of_service(key))).collect()
    }
}

/// Decision about the Pods of a Service in one IP family. With a fault, their packets are dropped.
type Decision = Result<PodEgress, EgressFault>;

/// Returns the present fault of a Service or that of a further Pod, whichever is worse.
fn more_severe(present: Option<EgressFault>, further: Option<EgressFault>) -> Option<EgressFault> {
    match (present, further) {
        (Some(present), Some(further)) if present.drops_packets() && !further.drops_packets() => {
            Some(further)
        }
        (present, further) => present.or(further),
    }
}

/// Returns the decision about the Pods of a Service in one IP family, from its address.
fn egress_of(address: Option<IpAddr>, is_ipv4: bool, view: &EgressView<'_>) -> Decision {
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
    let node_destinations = objects.nodes().values().flat_map(|node| {
        let addresses = node.addresses.iter().map(|address| IpNet::from(*address));
        node.pod_ranges.iter().copied().chain(addresses)
    });
    unforwarded
        .into_iter()
        .flatten()
        .chain(node_destinations)
        .chain(balanced.map(IpNet::from))
        .collect()
}

/// Returns the route to the Pods of a node among the routes of table `main`. Packets to the owner use this route,
/// through VXLAN or directly. The gateway counts as reachable on its link.
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
