//! Clients that are answered: networks that the operator names, the machines of the cluster, and this machine.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{PoisonError, RwLock};

use api::object::Node;
use ipnet::IpNet;

/// The clients that a server answers. All others get REFUSED.
///
/// Loopback addresses are always among them.
#[derive(Debug, Default)]
pub struct Clients {
    networks: Box<[IpNet]>,
    machines: RwLock<Machines>,
}

/// Addresses of machines.
#[derive(Debug, Default)]
struct Machines {
    own: HashSet<IpAddr>,
    /// By the name of the Node.
    of_nodes: HashMap<String, Vec<IpAddr>>,
    /// All addresses of `of_nodes`, for the look-up.
    nodes: HashSet<IpAddr>,
}

impl Clients {
    /// The clients of these networks.
    pub fn of_networks(networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self {
            networks: networks.into_iter().collect(),
            machines: RwLock::default(),
        }
    }

    /// Whether a client is answered.
    pub fn allows(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        // Networks first: that is where most queries come from, and they need no lock.
        if client.is_loopback() || self.networks.iter().any(|network| network.contains(&client)) {
            return true;
        }
        let machines = self.machines.read().unwrap_or_else(PoisonError::into_inner);
        machines.own.contains(&client) || machines.nodes.contains(&client)
    }

    /// Sets the addresses of this machine.
    pub(crate) fn set_own(&self, addresses: impl IntoIterator<Item = IpAddr>) {
        let own = addresses.into_iter().collect();
        self.machines.write().unwrap_or_else(PoisonError::into_inner).own = own;
    }

    /// Answers a Node's addresses from now on.
    pub(crate) fn put_node(&self, node: &Node) {
        let addresses = node.status.addresses.iter();
        let addresses: Vec<IpAddr> = addresses
            .filter_map(|address| address.address.parse::<IpAddr>().ok())
            .map(|address| address.to_canonical())
            .collect();
        let name = &node.metadata.name;
        let machines = self.machines.read().unwrap_or_else(PoisonError::into_inner);
        // Most changes of a Node are not of its addresses.
        let is_known = machines.of_nodes.get(name) == Some(&addresses);
        drop(machines);
        if !is_known {
            self.change_nodes(|nodes| drop(nodes.insert(name.clone(), addresses)));
        }
    }

    /// Forgets a Node's addresses.
    pub(crate) fn remove_node(&self, name: &str) {
        self.change_nodes(|nodes| drop(nodes.remove(name)));
    }

    fn change_nodes(&self, change: impl FnOnce(&mut HashMap<String, Vec<IpAddr>>)) {
        let mut machines = self.machines.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut machines.of_nodes);
        // Two Nodes may have one address for a while, so the set is computed anew.
        machines.nodes = machines.of_nodes.values().flatten().copied().collect();
    }
}

#[cfg(test)]
mod tests;
