//! Addresses that are not announced although a Service has them: those outside of all pools, and those of machines. To
//! answer for an address of a Node or of a gateway would lead others' traffic here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use api::object::Node;

use crate::NodeName;

/// The reason why an address is not announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// No AddressPool has it.
    NoPool,
    /// A Node has it, as its status says.
    OfNode(NodeName),
    /// A link of this machine has it.
    OfThisMachine,
    /// It is a gateway of this machine.
    OfGateway,
}

impl Withheld {
    /// All reasons as metrics label them.
    pub const LABELS: [&'static str; 4] = ["no-pool", "node", "this-machine", "gateway"];

    /// The reason as metrics label it.
    pub fn label(&self) -> &'static str {
        let [no_pool, node, this_machine, gateway] = Self::LABELS;
        match self {
            Self::NoPool => no_pool,
            Self::OfNode(_) => node,
            Self::OfThisMachine => this_machine,
            Self::OfGateway => gateway,
        }
    }
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPool => f.write_str("no AddressPool has it"),
            Self::OfNode(name) => write!(f, "it is an address of Node {name:?}"),
            Self::OfThisMachine => f.write_str("it is an address of a link of this machine"),
            Self::OfGateway => f.write_str("it is a gateway of this machine"),
        }
    }
}

/// The addresses of machines.
#[derive(Debug, Default)]
pub struct Foreign {
    nodes: BTreeMap<NodeName, BTreeSet<IpAddr>>,
    /// The Nodes of an address: two Nodes may claim the same.
    holders: BTreeMap<IpAddr, BTreeSet<NodeName>>,
    own: BTreeSet<IpAddr>,
    gateways: BTreeSet<IpAddr>,
}

impl Foreign {
    /// A Node has these addresses; those that it did not have before, and those that it has no more.
    pub fn set_node(&mut self, name: &str, addresses: BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
        let before = self.nodes.remove(name).unwrap_or_default();
        let changed: BTreeSet<IpAddr> = before.symmetric_difference(&addresses).copied().collect();
        let name = NodeName::from(name);
        for address in &changed {
            let holders = self.holders.entry(*address).or_default();
            if addresses.contains(address) {
                holders.insert(NodeName::clone(&name));
            } else {
                holders.remove(&name);
            }
            if holders.is_empty() {
                self.holders.remove(address);
            }
        }
        if !addresses.is_empty() {
            self.nodes.insert(name, addresses);
        }
        changed
    }

    /// This machine has these addresses and gateways; those that came or went.
    pub fn set_own(&mut self, own: BTreeSet<IpAddr>, gateways: BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
        let mut changed: BTreeSet<IpAddr> = self.own.symmetric_difference(&own).copied().collect();
        changed.extend(self.gateways.symmetric_difference(&gateways));
        (self.own, self.gateways) = (own, gateways);
        changed
    }

    /// The reason why the address is not announced, if it is a machine's.
    pub fn reason(&self, address: IpAddr) -> Option<Withheld> {
        if let Some(name) = self.holders.get(&address).and_then(BTreeSet::first) {
            return Some(Withheld::OfNode(NodeName::clone(name)));
        }
        if self.own.contains(&address) {
            return Some(Withheld::OfThisMachine);
        }
        self.gateways.contains(&address).then_some(Withheld::OfGateway)
    }
}

/// The addresses that a Node's status says.
pub fn addresses_of(node: &Node) -> BTreeSet<IpAddr> {
    let addresses = node.status.addresses.iter();
    addresses
        .filter_map(|address| address.address.parse().ok())
        .collect()
}
