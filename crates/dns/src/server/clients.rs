//! Allowed clients: configured networks, the nodes of the cluster, and this host.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{PoisonError, RwLock};

use api::object::Node;
use ipnet::IpNet;

/// The clients that a server allows. All others get REFUSED.
///
/// Loopback addresses are always allowed.
#[derive(Debug, Default)]
pub struct ClientAccessList {
    networks: Box<[IpNet]>,
    hosts: RwLock<HostAddresses>,
}

/// Addresses of hosts.
#[derive(Debug, Default)]
struct HostAddresses {
    own: HashSet<IpAddr>,
    /// Addresses by the name of the Node.
    addresses_by_node: HashMap<String, Vec<IpAddr>>,
    /// All addresses of `addresses_by_node`, for the lookup.
    nodes: HashSet<IpAddr>,
}

impl ClientAccessList {
    /// Allows the clients of these networks.
    pub fn of_networks(networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self {
            networks: networks.into_iter().collect(),
            hosts: RwLock::default(),
        }
    }

    /// Returns true if a client is allowed.
    pub fn allows(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        // Networks first: most queries come from there, and they need no lock.
        if client.is_loopback() || self.networks.iter().any(|network| network.contains(&client)) {
            return true;
        }
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        hosts.own.contains(&client) || hosts.nodes.contains(&client)
    }

    /// Sets the addresses of this host.
    pub(crate) fn set_own(&self, addresses: impl IntoIterator<Item = IpAddr>) {
        let own = addresses.into_iter().collect();
        self.hosts.write().unwrap_or_else(PoisonError::into_inner).own = own;
    }

    /// Allows the addresses of a Node.
    pub(crate) fn put_node(&self, node: &Node) {
        let addresses = node.status.addresses.iter();
        let addresses: Vec<IpAddr> = addresses
            .filter_map(|address| address.address.parse::<IpAddr>().ok())
            .map(|address| address.to_canonical())
            .collect();
        let name = &node.metadata.name;
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        // Most changes of a Node do not concern its addresses.
        let is_unchanged = hosts.addresses_by_node.get(name) == Some(&addresses);
        drop(hosts);
        if !is_unchanged {
            self.change_nodes(|nodes| drop(nodes.insert(name.clone(), addresses)));
        }
    }

    /// Removes the addresses of a Node.
    pub(crate) fn remove_node(&self, name: &str) {
        self.change_nodes(|nodes| drop(nodes.remove(name)));
    }

    fn change_nodes(&self, change: impl FnOnce(&mut HashMap<String, Vec<IpAddr>>)) {
        let mut hosts = self.hosts.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut hosts.addresses_by_node);
        // Two Nodes may share an address for a while, so the set is rebuilt.
        hosts.nodes = hosts.addresses_by_node.values().flatten().copied().collect();
    }
}

#[cfg(test)]
mod tests;
