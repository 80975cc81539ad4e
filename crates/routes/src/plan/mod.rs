//! What the kernel should have, and what it takes to get there. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use api::object::Node;
use ipnet::IpNet;
use netlink::route::{Action, ForwardingEntry, LinkIndex, Route};

use crate::{Network, PROTOCOL, Settings};

#[cfg(test)]
mod tests;

/// A machine of the cluster, as its Node says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The Node's name.
    pub name: String,
    /// Its internal addresses, in the Node's order.
    pub addresses: Vec<IpAddr>,
    /// The ranges of its Pods.
    pub ranges: Vec<IpNet>,
    /// When its Node was created: the older Node keeps a range that two of them have.
    pub created: Creation,
}

/// The order in which Nodes came into being: by `creationTimestamp`, then by UID. A Node without a time is the youngest.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Creation {
    lacks_time: bool,
    /// RFC 3339 in UTC with whole seconds, as API servers write it: the order of the texts is the order of the times.
    time: String,
    uid: String,
}

impl Creation {
    /// The creation of a Node with this `creationTimestamp` and UID.
    pub fn new(creation_timestamp: Option<&str>, uid: &str) -> Self {
        let time = creation_timestamp.unwrap_or_default();
        Self {
            lacks_time: time.is_empty(),
            time: time.to_owned(),
            uid: uid.to_owned(),
        }
    }
}

impl From<&Node> for Machine {
    fn from(node: &Node) -> Self {
        let internal = node
            .status
            .addresses
            .iter()
            .filter(|address| address.kind == "InternalIP");
        let single = std::iter::once(&node.spec.pod_cidr).filter(|_| node.spec.pod_cidrs.is_empty());
        let ranges = node.spec.pod_cidrs.iter().chain(single);
        Self {
            name: node.metadata.name.clone(),
            addresses: internal
                .filter_map(|address| address.address.parse().ok())
                .collect(),
            ranges: ranges.filter_map(|range| range.parse().ok()).collect(),
            created: Creation::new(node.metadata.creation_timestamp.as_deref(), &node.metadata.uid),
        }
    }
}

/// Why there is no way to a machine's Pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// The range is not in the cluster's.
    Outside(String, IpNet),
    /// Another machine has the range, or part of it; the one with the oldest Node keeps it, ours before all.
    Taken(String, IpNet, String),
    /// The machine says no address of the family that is needed.
    NoAddress(String, IpNet),
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside(node, range) => {
                write!(f, "the range {range} of Node {node} is not in --cluster-cidr")
            }
            Self::Taken(node, range, owner) => {
                write!(
                    f,
                    "the range {range} of Node {node} is the range of Node {owner}, too"
                )
            }
            Self::NoAddress(node, range) => {
                write!(
                    f,
                    "Node {node} says no InternalIP by which its range {range} is reached"
                )
            }
        }
    }
}

/// What the kernel should have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The routers of other machines' ranges; with a VXLAN link they are on it.
    pub routers: BTreeMap<IpNet, IpAddr>,
    /// With a VXLAN link: the addresses of all other machines, which wrapped packets may come from.
    pub sources: BTreeSet<IpAddr>,
    /// On the VXLAN link: where frames go.
    pub entries: BTreeSet<ForwardingEntry>,
    /// On the VXLAN link: the Ethernet addresses of the routers.
    pub neighbours: BTreeMap<IpAddr, [u8; 6]>,
    /// On the VXLAN link: this machine's own addresses.
    pub addresses: BTreeSet<IpNet>,
    /// Where there is no way.
    pub doubts: BTreeSet<Doubt>,
}

impl Plan {
    /// What a machine should have, going by all machines of the cluster.
    pub fn new(settings: &Settings, machines: &[Machine]) -> Self {
        let mut plan = Self::default();
        if settings.network == Network::None {
            return plan;
        }
        if let Network::Vxlan { .. } = settings.network {
            let others = machines
                .iter()
                .filter(|machine| machine.name != settings.node_name);
            plan.sources = others
                .flat_map(|machine| machine.addresses.iter().copied())
                .collect();
        }
        let (mut own, mut others): (Vec<&Machine>, Vec<&Machine>) = machines
            .iter()
            .partition(|machine| machine.name == settings.node_name);
        others.sort_by(|one, other| (&one.created, &one.name).cmp(&(&other.created, &other.name)));
        own.extend(others);
        let mut taken: Vec<(IpNet, &str)> = Vec::new();
        for machine in own {
            for range in &machine.ranges {
                if let Some(doubt) = plan.doubt(settings, machine, range, &taken) {
                    plan.doubts.insert(doubt);
                    continue;
                }
                taken.push((*range, &machine.name));
                if machine.name == settings.node_name {
                    plan.add_own(settings.network, range);
                } else {
                    plan.add(settings, machine, range);
                }
            }
        }
        plan
    }

    fn doubt(
        &self,
        settings: &Settings,
        machine: &Machine,
        range: &IpNet,
        taken: &[(IpNet, &str)],
    ) -> Option<Doubt> {
        let name = || machine.name.clone();
        let is_own = machine.name == settings.node_name;
        if !is_own
            && !settings
                .cluster_cidrs
                .iter()
                .any(|cluster| contains(cluster, range))
        {
            return Some(Doubt::Outside(name(), *range));
        }
        let overlaps = |other: &IpNet| contains(other, range) || contains(range, other);
        let owner = taken.iter().find(|(other, _)| overlaps(other));
        owner.map(|(_, owner)| Doubt::Taken(name(), *range, (*owner).to_owned()))
    }

    /// With a VXLAN link, the first address of its range is this machine's own towards the others.
    fn add_own(&mut self, network: Network, range: &IpNet) {
        if matches!(network, Network::Vxlan { .. }) {
            self.addresses.insert(range.network().into());
        }
    }

    fn add(&mut self, settings: &Settings, machine: &Machine, range: &IpNet) {
        let of_family = |is_ipv4: bool| machine.addresses.iter().find(|ip| ip.is_ipv4() == is_ipv4);
        let underlay = match settings.network {
            Network::Vxlan { .. } => settings.node_ips.first().is_none_or(IpAddr::is_ipv4),
            Network::HostGw | Network::None => range.addr().is_ipv4(),
        };
        let Some(address) = of_family(underlay) else {
            self.doubts.insert(Doubt::NoAddress(machine.name.clone(), *range));
            return;
        };
        if let Network::Vxlan { .. } = settings.network {
            let (router, ethernet) = (range.network(), ethernet_of(&machine.name));
            self.routers.insert(*range, router);
            self.neighbours.insert(router, ethernet);
            self.entries.insert(ForwardingEntry {
                ethernet,
                machine: *address,
            });
        } else {
            self.routers.insert(*range, *address);
        }
    }
}

/// The Ethernet address of a machine's VXLAN link: all others know it by the machine's name.
pub fn ethernet_of(name: &str) -> [u8; 6] {
    // FNV-1a; of the first byte the bits for "local" and "one machine" are as they must be.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let [_, _, first, rest @ ..] = hash.to_be_bytes();
    let [b1, b2, b3, b4, b5] = rest;
    [first & 0xfc | 0x02, b1, b2, b3, b4, b5]
}

/// What the kernel has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// All routes of the main table.
    pub routes: Vec<Route>,
    /// What is on the VXLAN link, if there is one.
    pub link: Option<PresentLink>,
}

/// What is on a VXLAN link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresentLink {
    /// Its number.
    pub index: LinkIndex,
    /// Its table.
    pub entries: BTreeSet<ForwardingEntry>,
    /// Its neighbours.
    pub neighbours: BTreeMap<IpAddr, [u8; 6]>,
    /// Its addresses that reach beyond it.
    pub addresses: BTreeSet<IpNet>,
}

/// What it takes to get from what the kernel has to what it should have, in the order in which it is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Routes of ours that lead nowhere any more.
    pub removed_routes: Vec<Route>,
    /// Entries of machines that are gone, or are elsewhere.
    pub removed_entries: Vec<ForwardingEntry>,
    /// Neighbours that are gone.
    pub removed_neighbours: Vec<IpAddr>,
    /// Addresses that are not ours any more.
    pub removed_addresses: Vec<IpNet>,
    /// Addresses that are missing.
    pub addresses: Vec<IpNet>,
    /// Entries that are missing.
    pub entries: Vec<ForwardingEntry>,
    /// Neighbours that are missing, or have another Ethernet address.
    pub neighbours: Vec<(IpAddr, [u8; 6])>,
    /// Routes that are missing.
    pub routes: Vec<Route>,
    /// Ranges to which others have made routes: theirs stay.
    pub foreign: Vec<IpNet>,
}

impl Changes {
    /// From what is there to what should be.
    pub fn new(plan: &Plan, present: &Present) -> Self {
        let mut changes = Self::default();
        changes.compare_routes(plan, present);
        if let Some(link) = &present.link {
            changes.compare_link(plan, link);
        }
        changes
    }

    fn compare_routes(&mut self, plan: &Plan, present: &Present) {
        let link = present.link.as_ref().map(|link| link.index);
        let fits = |route: &Route| {
            let router = plan.routers.get(&route.destination);
            router.is_some_and(|router| leads_by(&route.action, *router, link))
        };
        let ours = || present.routes.iter().filter(|route| route.protocol == PROTOCOL);
        self.removed_routes = ours().filter(|route| !fits(route)).copied().collect();
        for (range, router) in &plan.routers {
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
                    gateway: *router,
                    link,
                },
                None => Action::Via {
                    gateway: *router,
                    link: None,
                },
            };
            self.routes.push(Route {
                protocol: PROTOCOL,
                ..Route::new(*range, action)
            });
        }
    }

    fn compare_link(&mut self, plan: &Plan, link: &PresentLink) {
        self.removed_entries = link.entries.difference(&plan.entries).copied().collect();
        self.entries = plan.entries.difference(&link.entries).copied().collect();
        self.removed_addresses = link.addresses.difference(&plan.addresses).copied().collect();
        self.addresses = plan.addresses.difference(&link.addresses).copied().collect();
        let gone = link
            .neighbours
            .keys()
            .filter(|router| !plan.neighbours.contains_key(router));
        self.removed_neighbours = gone.copied().collect();
        let missing = plan
            .neighbours
            .iter()
            .filter(|(router, ethernet)| link.neighbours.get(router) != Some(ethernet));
        self.neighbours = missing.map(|(router, ethernet)| (*router, *ethernet)).collect();
    }

    /// Whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        *self
            == Self {
                foreign: self.foreign.clone(),
                ..Self::default()
            }
    }
}

fn leads_by(action: &Action, router: IpAddr, link: Option<LinkIndex>) -> bool {
    match (action, link) {
        (Action::Via { gateway, .. }, None) => *gateway == router,
        (Action::ViaOnLink { gateway, link: of }, Some(link)) => *gateway == router && *of == link,
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
