//! Desired state of the kernel, and the changes that lead to it. Pure.
//!
//! The ranges of this node come first, then those of other Nodes by their creation. A range that overlaps an earlier
//! one, or lies outside of the cluster CIDRs, gets no route and is reported as a fault. A new Node therefore cannot
//! take the packets of an older one. The same order decides if two names lead to one Ethernet address on the VXLAN
//! link.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use api::hash::fnv1a_64;
use api::object::Node;
use ipnet::IpNet;
use netlink::route::{Action, ForwardingEntry, LinkIndex, Route};

use crate::{Network, PROTOCOL, Settings};

#[cfg(test)]
mod tests;

/// A node of the cluster, as its Node object describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterNode {
    /// Name of the Node.
    pub name: String,
    /// Internal addresses, in the order of the Node.
    pub addresses: Vec<IpAddr>,
    /// Pod CIDRs of the node.
    pub pod_cidrs: Vec<IpNet>,
    /// Creation of the Node. If two Nodes have the same range, the older one keeps it.
    pub created: Creation,
}

/// Order of creation: by `creationTimestamp`, then by UID. A Node without a timestamp is the youngest.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Creation {
    lacks_time: bool,
    /// RFC 3339 in UTC with whole seconds, as API servers write it, so that the order of texts is that of times.
    time: String,
    uid: String,
}

impl Creation {
    /// Creates a value from the `creationTimestamp` and UID of a Node.
    pub fn new(creation_timestamp: Option<&str>, uid: &str) -> Self {
        let time = creation_timestamp.unwrap_or_default();
        Self {
            lacks_time: time.is_empty(),
            time: time.to_owned(),
            uid: uid.to_owned(),
        }
    }
}

impl From<&Node> for ClusterNode {
    fn from(node: &Node) -> Self {
        let internal = node
            .status
            .addresses
            .iter()
            .filter(|address| address.kind == "InternalIP");
        let single = std::iter::once(&node.spec.pod_cidr).filter(|_| node.spec.pod_cidrs.is_empty());
        let pod_cidrs = node.spec.pod_cidrs.iter().chain(single);
        Self {
            name: node.metadata.name.clone(),
            addresses: internal
                .filter_map(|address| address.address.parse().ok())
                .collect(),
            pod_cidrs: pod_cidrs.filter_map(|range| range.parse().ok()).collect(),
            created: Creation::new(node.metadata.creation_timestamp.as_deref(), &node.metadata.uid),
        }
    }
}

/// Reasons why a node's Pods have no route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteFault {
    /// The range is outside of the cluster CIDRs.
    OutsideClusterCidrs(String, IpNet),
    /// The range overlaps with that of another Node. This node has precedence, then the oldest Node.
    Overlap(String, IpNet, String),
    /// The Node has no address of the required IP family.
    NoAddress(String, IpNet),
    /// The names of two Nodes lead to the same Ethernet address on the VXLAN link. This node has precedence, then the
    /// oldest Node.
    SameEthernet(String, String),
}

impl fmt::Display for RouteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutsideClusterCidrs(node, range) => {
                write!(f, "range {range} of Node {node} is not within --cluster-cidr")
            }
            Self::Overlap(node, range, owner) => {
                write!(
                    f,
                    "range {range} of Node {node} overlaps with a range of Node {owner}"
                )
            }
            Self::NoAddress(node, range) => {
                write!(
                    f,
                    "Node {node} has no InternalIP of the IP family of its range {range}"
                )
            }
            Self::SameEthernet(node, owner) => {
                write!(
                    f,
                    "the name of Node {node} leads to the Ethernet address of Node {owner}; join its host under another name"
                )
            }
        }
    }
}

/// Desired state of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Gateways of the other nodes' ranges; with a VXLAN link, their addresses on that link.
    pub gateways: BTreeMap<IpNet, IpAddr>,
    /// With a VXLAN link: addresses of all other nodes, which may send encapsulated packets.
    pub sources: BTreeSet<IpAddr>,
    /// On the VXLAN link: forwarding entries.
    pub entries: BTreeSet<ForwardingEntry>,
    /// On the VXLAN link: Ethernet addresses of the gateways.
    pub neighbours: BTreeMap<IpAddr, [u8; 6]>,
    /// On the VXLAN link: addresses of this node.
    pub addresses: BTreeSet<IpNet>,
    /// Ranges without a route.
    pub faults: BTreeSet<RouteFault>,
}

impl Plan {
    /// Derives the desired state of this node from all nodes of the cluster.
    pub fn new(settings: &Settings, nodes: &[ClusterNode]) -> Self {
        let mut plan = Self::default();
        if settings.network == Network::None {
            return plan;
        }
        if let Network::Vxlan { .. } = settings.network {
            let others = nodes.iter().filter(|node| node.name != settings.node_name);
            plan.sources = others.flat_map(|node| node.addresses.iter().copied()).collect();
        }
        let (mut own, mut others): (Vec<&ClusterNode>, Vec<&ClusterNode>) =
            nodes.iter().partition(|node| node.name == settings.node_name);
        others.sort_by(|one, other| (&one.created, &one.name).cmp(&(&other.created, &other.name)));
        own.extend(others);
        let mut taken: Vec<(IpNet, &str)> = Vec::new();
        let mut ethernets: BTreeMap<[u8; 6], &str> = BTreeMap::new();
        for node in own {
            // The hash of names is not cryptographic. A host could choose a name whose hash is the address of another
            // one, and receive its packets.
            if matches!(settings.network, Network::Vxlan { .. }) && !node.pod_cidrs.is_empty() {
                let owner = ethernets.entry(ethernet_of(&node.name)).or_insert(&node.name);
                if *owner != node.name {
                    let fault = RouteFault::SameEthernet(node.name.clone(), (*owner).to_owned());
                    plan.faults.insert(fault);
                    continue;
                }
            }
            for range in &node.pod_cidrs {
                if let Some(fault) = plan.fault(settings, node, range, &taken) {
                    plan.faults.insert(fault);
                    continue;
                }
                taken.push((*range, &node.name));
                if node.name == settings.node_name {
                    plan.add_own(settings.network, range);
                } else {
                    plan.add(settings, node, range);
                }
            }
        }
        plan
    }

    fn fault(
        &self,
        settings: &Settings,
        node: &ClusterNode,
        range: &IpNet,
        taken: &[(IpNet, &str)],
    ) -> Option<RouteFault> {
        let name = || node.name.clone();
        let is_own = node.name == settings.node_name;
        if !is_own
            && !settings
                .cluster_cidrs
                .iter()
                .any(|cluster| contains(cluster, range))
        {
            return Some(RouteFault::OutsideClusterCidrs(name(), *range));
        }
        let overlaps = |other: &IpNet| contains(other, range) || contains(range, other);
        let owner = taken.iter().find(|(other, _)| overlaps(other));
        owner.map(|(_, owner)| RouteFault::Overlap(name(), *range, (*owner).to_owned()))
    }

    /// Assigns the first address of this node's range to its VXLAN link.
    fn add_own(&mut self, network: Network, range: &IpNet) {
        if matches!(network, Network::Vxlan { .. }) {
            self.addresses.insert(range.network().into());
        }
    }

    fn add(&mut self, settings: &Settings, node: &ClusterNode, range: &IpNet) {
        let address_of_family = |is_ipv4: bool| node.addresses.iter().find(|ip| ip.is_ipv4() == is_ipv4);
        let underlay = match settings.network {
            Network::Vxlan { .. } => settings.node_ips.first().is_none_or(IpAddr::is_ipv4),
            Network::HostGw | Network::None => range.addr().is_ipv4(),
        };
        let Some(address) = address_of_family(underlay) else {
            self.faults
                .insert(RouteFault::NoAddress(node.name.clone(), *range));
            return;
        };
        if let Network::Vxlan { .. } = settings.network {
            let (gateway, ethernet) = (range.network(), ethernet_of(&node.name));
            self.gateways.insert(*range, gateway);
            self.neighbours.insert(gateway, ethernet);
            self.entries.insert(ForwardingEntry {
                ethernet,
                host: *address,
            });
        } else {
            self.gateways.insert(*range, *address);
        }
    }
}

/// Returns the Ethernet address of a node's VXLAN link, which all nodes derive from its name.
pub fn ethernet_of(name: &str) -> [u8; 6] {
    let [_, _, first, rest @ ..] = fnv1a_64(name.bytes()).to_be_bytes();
    let [b1, b2, b3, b4, b5] = rest;
    // The first byte has the bits of a locally administered unicast address.
    [first & 0xfc | 0x02, b1, b2, b3, b4, b5]
}

/// Current state of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelState {
    /// Routes of table `main`.
    pub routes: Vec<Route>,
    /// State of the VXLAN link, if it exists.
    pub link: Option<VxlanState>,
}

/// State of the VXLAN link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VxlanState {
    /// Index of the link.
    pub index: LinkIndex,
    /// Forwarding entries.
    pub entries: BTreeSet<ForwardingEntry>,
    /// Permanent neighbours.
    pub neighbours: BTreeMap<IpAddr, [u8; 6]>,
    /// Global addresses.
    pub addresses: BTreeSet<IpNet>,
}

/// Changes from the current to the desired state, in the order of execution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Own routes to delete.
    pub removed_routes: Vec<Route>,
    /// Forwarding entries to delete.
    pub removed_entries: Vec<ForwardingEntry>,
    /// Neighbours to delete.
    pub removed_neighbours: Vec<IpAddr>,
    /// Addresses to delete.
    pub removed_addresses: Vec<IpNet>,
    /// Addresses to add.
    pub addresses: Vec<IpNet>,
    /// Forwarding entries to set.
    pub entries: Vec<ForwardingEntry>,
    /// Neighbours to set.
    pub neighbours: Vec<(IpAddr, [u8; 6])>,
    /// Routes to add.
    pub routes: Vec<Route>,
    /// Ranges with a foreign route, which stays.
    pub foreign: Vec<IpNet>,
}

impl Changes {
    /// Compares the desired with the current state.
    pub fn new(plan: &Plan, present: &KernelState) -> Self {
        let mut changes = Self::default();
        changes.compare_routes(plan, present);
        if let Some(link) = &present.link {
            changes.compare_link(plan, link);
        }
        changes
    }

    /// Compares the routes of the kernel with the plan. Ranges with routes of other programs are left out.
    fn compare_routes(&mut self, plan: &Plan, present: &KernelState) {
        let link = present.link.as_ref().map(|link| link.index);
        let fits = |route: &Route| {
            let gateway = plan.gateways.get(&route.destination);
            gateway.is_some_and(|gateway| uses_gateway(&route.action, *gateway, link))
        };
        let ours = || present.routes.iter().filter(|route| route.protocol == PROTOCOL);
        self.removed_routes = ours().filter(|route| !fits(route)).copied().collect();
        for (range, gateway) in &plan.gateways {
            let mut to_range = present.routes.iter().filter(|route| route.destination == *range);
            if to_range
                .clone()
                .any(|route| route.protocol == PROTOCOL && fits(route))
            {
                continue;
            }
            if to_range.any(|route| route.protocol != PROTOCOL) {
                self.foreign.push(*range);
                continue;
            }
            let action = match link {
                Some(link) => Action::ViaOnLink {
                    gateway: *gateway,
                    link,
                },
                None => Action::Via {
                    gateway: *gateway,
                    link: None,
                },
            };
            self.routes.push(Route {
                protocol: PROTOCOL,
                ..Route::new(*range, action)
            });
        }
    }

    fn compare_link(&mut self, plan: &Plan, link: &VxlanState) {
        self.removed_entries = link.entries.difference(&plan.entries).copied().collect();
        self.entries = plan.entries.difference(&link.entries).copied().collect();
        self.removed_addresses = link.addresses.difference(&plan.addresses).copied().collect();
        self.addresses = plan.addresses.difference(&link.addresses).copied().collect();
        let gone = link
            .neighbours
            .keys()
            .filter(|gateway| !plan.neighbours.contains_key(gateway));
        self.removed_neighbours = gone.copied().collect();
        let missing = plan
            .neighbours
            .iter()
            .filter(|(gateway, ethernet)| link.neighbours.get(gateway) != Some(ethernet));
        self.neighbours = missing.map(|(gateway, ethernet)| (*gateway, *ethernet)).collect();
    }

    /// Returns true if nothing has to change.
    pub fn is_empty(&self) -> bool {
        *self
            == Self {
                foreign: self.foreign.clone(),
                ..Self::default()
            }
    }
}

fn uses_gateway(action: &Action, expected: IpAddr, link: Option<LinkIndex>) -> bool {
    match (action, link) {
        (Action::Via { gateway, .. }, None) => *gateway == expected,
        (Action::ViaOnLink { gateway, link: of }, Some(link)) => *gateway == expected && *of == link,
        _ => false,
    }
}

fn contains(whole: &IpNet, part: &IpNet) -> bool {
    match (whole, part) {
        (IpNet::V4(whole), IpNet::V4(part)) => whole.contains(part),
        (IpNet::V6(whole), IpNet::V6(part)) => whole.contains(part),
        _ => false,
    }
}
