//! Other nodes, as this node addresses them on its links. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Addresses of Nodes by name, the primary one first.
pub type NodeAddresses = BTreeMap<Arc<str>, Vec<IpAddr>>;

/// First number of a peer. Numbers below are used for this node's own addresses.
const FIRST_NUMBER: u16 = 2;

/// Number of a peer, which only this node uses: part of its gateway addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PeerNumber(u16);

impl PeerNumber {
    /// Returns the number in a gateway address.
    pub(crate) fn of_gateway(gateway: IpAddr) -> Option<Self> {
        let number = match gateway {
            IpAddr::V4(address) => {
                let [_, _, high, low] = address.octets();
                u16::from_be_bytes([high, low])
            }
            IpAddr::V6(address) => {
                let [.., number] = address.segments();
                number
            }
        };
        (number >= FIRST_NUMBER).then_some(Self(number))
    }

    /// Returns the number in the bytes of a gateway address.
    pub(crate) fn of_bytes(gateway: &[u8]) -> Option<Self> {
        let gateway = match gateway.len() {
            4 => IpAddr::from(<[u8; 4]>::try_from(gateway).ok()?),
            _ => IpAddr::from(<[u8; 16]>::try_from(gateway).ok()?),
        };
        Self::of_gateway(gateway)
    }

    /// Returns the number.
    pub(crate) fn get(self) -> u16 {
        self.0
    }

    /// Returns the gateway address, the same on all links. The kernel needs one for each packet; no packet contains it, so
    /// the range only has to be unused: IPv4 reserves 240.0.0.0/4 (RFC 1112).
    pub(crate) fn gateway(self, is_ipv6: bool) -> IpAddr {
        let [high, low] = self.0.to_be_bytes();
        if is_ipv6 {
            Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, self.0).into()
        } else {
            Ipv4Addr::new(240, 0, high, low).into()
        }
    }
}

/// Another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Peer {
    /// Number on this node.
    pub(crate) number: PeerNumber,
    /// Ethernet address of its links.
    pub(crate) ethernet: [u8; 6],
    /// Address of the node.
    pub(crate) host: IpAddr,
}

/// All other nodes with an address of the family of this node's primary one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers {
    by_name: BTreeMap<Arc<str>, Peer>,
    /// Numbers that nodes without a peer get, by name.
    reserved: BTreeMap<Arc<str>, PeerNumber>,
}

impl Peers {
    /// Reserves the numbers that an earlier process gave to nodes, until the next update.
    pub(crate) fn reserve(&mut self, numbers: BTreeMap<Arc<str>, PeerNumber>) {
        self.reserved = numbers;
    }

    /// Applies the addresses of all Nodes; `local` is that of this node. A peer keeps its number.
    ///
    /// A new Node whose name leads to the Ethernet address of another one is not a peer. The hash of names is not
    /// cryptographic: a host could join under such a name, and receive the packets of the other one.
    pub(crate) fn update(&mut self, nodes: &NodeAddresses, own: &str, local: IpAddr) {
        let host_of = |addresses: &Vec<IpAddr>| {
            let mut candidates = addresses.iter().copied();
            candidates.find(|address| address.is_ipv4() == local.is_ipv4())
        };
        let hosts: BTreeMap<&Arc<str>, IpAddr> = nodes
            .iter()
            .filter(|(name, _)| ***name != *own)
            .filter_map(|(name, addresses)| Some((name, host_of(addresses)?)))
            .collect();
        let mut users: BTreeMap<[u8; 6], usize> = BTreeMap::from([(ethernet_of(own), 1)]);
        for name in hosts.keys() {
            *users.entry(ethernet_of(name)).or_default() += 1;
        }
        self.by_name.retain(|name, _| hosts.contains_key(name));
        let mut reserved = std::mem::take(&mut self.reserved);
        let peer_numbers = self.by_name.values().map(|peer| peer.number);
        let used: BTreeSet<PeerNumber> = peer_numbers.chain(reserved.values().copied()).collect();
        let numbers = (FIRST_NUMBER..=u16::MAX).map(PeerNumber);
        let mut free = numbers.filter(|number| !used.contains(number));
        for (name, host) in hosts {
            if let Some(peer) = self.by_name.get_mut(name) {
                peer.host = host;
                continue;
            }
            let ethernet = ethernet_of(name);
            if users.get(&ethernet) != Some(&1) {
                continue;
            }
            // Kubernetes supports fewer nodes than there are numbers.
            let Some(number) = reserved.remove(name).or_else(|| free.next()) else {
                return;
            };
            let peer = Peer {
                number,
                ethernet,
                host,
            };
            self.by_name.insert(name.clone(), peer);
        }
    }

    /// Returns a peer by the name of its Node.
    pub(crate) fn get(&self, name: &str) -> Option<&Peer> {
        self.by_name.get(name)
    }

    /// Returns all peers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.by_name.values()
    }
}

/// Returns the Ethernet address of a node's links, which is derived from its name: locally administered, unicast.
pub(crate) fn ethernet_of(name: &str) -> [u8; 6] {
    let [first, second, third, fourth, fifth, ..] =
        maglev::hash(format!("two-tier/{name}").as_bytes()).to_be_bytes();
    [2, first, second, third, fourth, fifth]
}

#[cfg(test)]
mod tests;
