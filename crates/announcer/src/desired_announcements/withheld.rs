//! Withheld addresses: recorded for a Service and not announced, because they lie outside of all AddressPools or belong
//! to a host. The announcer of the address of a Node or gateway would receive its traffic.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use api::object::Node;

use crate::NodeName;

/// Reason why an address is not announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Withheld {
    /// No AddressPool contains the address.
    NoPool,
    /// No L2Advertisement selects the IPAddressPool of the address.
    NoAdvertisement,
    /// A Node reports the address in its status.
    NodeAddress(NodeName),
    /// A link of this host has the address.
    HostAddress,
    /// The address is a gateway of this host.
    GatewayAddress,
}

impl Withheld {
    /// Metric labels of all reasons.
    pub(crate) const LABELS: [&'static str; 5] =
        ["no-pool", "no-advertisement", "node", "this-host", "gateway"];

    /// Returns the metric label of the reason.
    pub(crate) fn label(&self) -> &'static str {
        let [no_pool, no_advertisement, node, host_address, gateway] = Self::LABELS;
        match self {
            Self::NoPool => no_pool,
            Self::NoAdvertisement => no_advertisement,
            Self::NodeAddress(_) => node,
            Self::HostAddress => host_address,
            Self::GatewayAddress => gateway,
        }
    }
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPool => f.write_str("no AddressPool contains it"),
            Self::NoAdvertisement => f.write_str("no L2Advertisement selects its IPAddressPool"),
            Self::NodeAddress(name) => write!(f, "it is an address of Node {name:?}"),
            Self::HostAddress => f.write_str("it is an address of a link of this host"),
            Self::GatewayAddress => f.write_str("it is a gateway of this host"),
        }
    }
}

/// Addresses of Nodes, of this host and of its gateways.
#[derive(Debug, Default)]
pub(crate) struct HostAddresses {
    nodes: BTreeMap<NodeName, BTreeSet<IpAddr>>,
    /// Nodes by address; two Nodes may report the same.
    holders: BTreeMap<IpAddr, BTreeSet<NodeName>>,
    own: BTreeSet<IpAddr>,
    gateways: BTreeSet<IpAddr>,
}

impl HostAddresses {
    /// Sets the addresses of a Node. Returns the added and removed ones.
    pub(crate) fn set_node(&mut self, name: &str, addresses: BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
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

    /// Sets the addresses of this host and its gateways. Returns the added and removed ones.
    pub(crate) fn set_own(&mut self, own: BTreeSet<IpAddr>, gateways: BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
        let mut changed: BTreeSet<IpAddr> = self.own.symmetric_difference(&own).copied().collect();
        changed.extend(self.gateways.symmetric_difference(&gateways));
        (self.own, self.gateways) = (own, gateways);
        changed
    }

    /// Returns the reason to withhold an address; `None` if it belongs to no host.
    pub(crate) fn reason(&self, address: IpAddr) -> Option<Withheld> {
        if let Some(name) = self.holders.get(&address).and_then(BTreeSet::first) {
            return Some(Withheld::NodeAddress(NodeName::clone(name)));
        }
        if self.own.contains(&address) {
            return Some(Withheld::HostAddress);
        }
        self.gateways
            .contains(&address)
            .then_some(Withheld::GatewayAddress)
    }
}

/// Returns the addresses in a Node's status.
pub(crate) fn addresses_of(node: &Node) -> BTreeSet<IpAddr> {
    let addresses = node.status.addresses.iter();
    addresses
        .filter_map(|address| address.address.parse().ok())
        .collect()
}
