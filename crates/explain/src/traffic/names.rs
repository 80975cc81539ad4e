//! Names of the Pods and Nodes that have an address.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::kind::Kind;
use crate::views::{EndpointSlice, Node, Pod};
use crate::world::World;

/// Kind of a client or endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PeerKind {
    /// A Pod.
    Pod,
    /// A node, or a process on it.
    Node,
    /// A host outside of the cluster.
    #[default]
    External,
}

/// Client or endpoint at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Peer {
    /// Kind.
    pub kind: PeerKind,
    /// `namespace/name` of the Pod, or the name of the Node; "" if the address has no name, as that of a deleted Pod.
    pub name: String,
    /// Node of the Pod, or the Node itself; "" outside of the cluster.
    pub node: String,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.name.as_str()) {
            (PeerKind::External, "") => f.write_str("external"),
            (PeerKind::Pod, "") => f.write_str("pod, deleted"),
            (PeerKind::Pod, name) => write!(f, "pod/{name}"),
            (PeerKind::Node, name) => write!(f, "node/{name}"),
            (PeerKind::External, name) => f.write_str(name),
        }
    }
}

/// Pods and Nodes by their addresses.
#[derive(Clone, Debug, Default)]
pub struct Names {
    peers: HashMap<IpAddr, Peer>,
    pod_ranges: Vec<IpNet>,
}

impl Names {
    /// Reads the Pods, Nodes and endpoints of a world.
    pub fn of(world: &World) -> Self {
        let mut names = Self::default();
        for node in world.nodes() {
            names.add_node(&node.name, node.ips());
            let ranges = Node::pod_cidrs(node).filter_map(|text| text.parse::<IpNet>().ok());
            names.pod_ranges.extend(ranges);
        }
        let slices = world.all(Kind::EndpointSlice).map(EndpointSlice);
        for slice in slices {
            for endpoint in slice.endpoints() {
                if let (Some(pod), Some(address)) = (endpoint.pod(), endpoint.ip()) {
                    names.add_pod(&slice.namespace, pod, endpoint.node(), [address]);
                }
            }
        }
        let pods = world.all(Kind::Pod).map(Pod);
        for pod in pods.filter(|pod| !pod.is_finished() && !pod.is_on_host_network()) {
            names.add_pod(&pod.namespace, &pod.name, pod.node(), pod.ips());
        }
        names
    }

    /// Adds a Node. Pods in its network namespace share its addresses and count as the node.
    pub fn add_node(&mut self, name: &str, addresses: impl IntoIterator<Item = IpAddr>) {
        for address in addresses {
            let peer = Peer {
                kind: PeerKind::Node,
                name: name.to_owned(),
                node: name.to_owned(),
            };
            self.peers.insert(address, peer);
        }
    }

    /// Adds a Pod. Addresses of Nodes keep their names.
    pub fn add_pod(
        &mut self,
        namespace: &str,
        name: &str,
        node: &str,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) {
        for address in addresses {
            if self
                .peers
                .get(&address)
                .is_some_and(|peer| peer.kind == PeerKind::Node)
            {
                continue;
            }
            let peer = Peer {
                kind: PeerKind::Pod,
                name: format!("{namespace}/{name}"),
                node: node.to_owned(),
            };
            self.peers.insert(address, peer);
        }
    }

    /// Adds a range of Pod addresses, for addresses of deleted Pods.
    pub fn add_pod_range(&mut self, range: IpNet) {
        self.pod_ranges.push(range);
    }

    /// Returns the Pod or Node at an address.
    pub fn peer(&self, address: IpAddr) -> Peer {
        if let Some(peer) = self.peers.get(&address) {
            return peer.clone();
        }
        let is_pod = self.pod_ranges.iter().any(|range| range.contains(&address));
        Peer {
            kind: if is_pod { PeerKind::Pod } else { PeerKind::External },
            ..Peer::default()
        }
    }

    /// Returns the addresses of a Pod (`namespace/name`) or Node.
    pub fn addresses_of<'n>(&'n self, kind: PeerKind, name: &'n str) -> impl Iterator<Item = IpAddr> + 'n {
        let peers = self.peers.iter();
        peers
            .filter(move |(_, peer)| peer.kind == kind && peer.name == name)
            .map(|(address, _)| *address)
    }
}
