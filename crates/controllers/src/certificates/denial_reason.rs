//! Checks of the names and addresses in requests of nodes. Pure.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use api::certificates::{Incarnation, NodeNameError, REPLACES_NODE, check_node_name};
use api::object::{CertificateSigningRequest, Node};
use ipnet::IpNet;

/// The reason that denies a node a certificate which its sender may request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DenialReason {
    /// The node name is invalid.
    #[error(transparent)]
    Name(#[from] NodeNameError),
    /// Another host has the name.
    #[error(
        "a Node named {0:?} exists; join with another --node-name, remove the Node first (`portolan leave` on its host, or \
         `kubectl delete node`), or join with a token of `portolan token create --replace {0}`"
    )]
    NameTaken(String),
    /// Another host has joined under the name since the request was made, or the Node was deleted.
    #[error("the Node {0:?} was removed or replaced after the request was made; join again")]
    AnotherIncarnation(String),
    /// The Node does not exist yet: the agent has not created it. Temporary.
    #[error("Node {0:?} does not exist yet")]
    NoNode(String),
    /// The Node has not reported the address. Temporary.
    #[error("Node {node:?} has not reported the address {address}")]
    NotItsAddress {
        /// Name of the Node.
        node: String,
        /// Requested address.
        address: IpAddr,
    },
    /// The address does not identify a single host.
    #[error("{address} is {address_kind}")]
    UnusableAddress {
        /// Requested address.
        address: IpAddr,
        /// The kind of address.
        address_kind: &'static str,
    },
    /// The address belongs to another host.
    #[error("{address} also belongs to {owner}")]
    AddressTaken {
        /// Requested address.
        address: IpAddr,
        /// The other owner.
        owner: String,
    },
}

impl DenialReason {
    /// Returns true if the reason can end without a change of the request.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::NotItsAddress { .. } | Self::NoNode(_))
    }
}

/// Names and addresses of the API servers, and the cluster domain. No node may use them.
#[derive(Clone, Debug, Default)]
pub struct ReservedNames {
    names: Vec<String>,
    addresses: BTreeSet<IpAddr>,
    cluster_domain: String,
}

impl ReservedNames {
    /// Reserves the subject alternative names of the API server certificate, and the cluster domain.
    pub fn new(serving_names: &[String], cluster_domain: &str) -> Self {
        let (addresses, names): (Vec<_>, Vec<_>) = serving_names
            .iter()
            .partition(|name| name.parse::<IpAddr>().is_ok());
        Self {
            names: names.into_iter().cloned().collect(),
            addresses: addresses.iter().filter_map(|text| text.parse().ok()).collect(),
            cluster_domain: cluster_domain.to_owned(),
        }
    }

    /// Returns true if clients use this address for an API server.
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    /// Checks a node name against the reserved names.
    pub fn name_denial(&self, name: &str) -> Option<DenialReason> {
        if name
            .parse()
            .is_ok_and(|address: IpAddr| self.has_address(address))
        {
            return Some(NodeNameError::Reserved(name.to_owned()).into());
        }
        let servers = self.names.iter().map(String::as_str);
        check_node_name(name, &self.cluster_domain, servers)
            .err()
            .map(DenialReason::Name)
    }
}

/// Checks a request to join under the name of the Node `present`. Only a token that was created to replace
/// this incarnation of the Node passes.
pub fn joining_denial(request: &CertificateSigningRequest, present: &Node) -> Option<DenialReason> {
    let may_replace = request.spec.extra.get(REPLACES_NODE).is_some_and(|replaced| {
        let [name, written] = replaced.as_slice() else {
            return false;
        };
        *name == present.metadata.name && Incarnation::from_text(written) == Incarnation::of_node(present)
    });
    (!may_replace).then(|| DenialReason::NameTaken(present.metadata.name.clone()))
}

/// Addresses that a node may not claim because they belong to others.
#[derive(Clone, Debug, Default)]
pub struct ForeignAddresses {
    /// All Nodes, including the requesting one.
    pub nodes: Vec<Node>,
    /// Addresses of API servers beyond those of [`ReservedNames`].
    pub api_servers: BTreeSet<IpAddr>,
    /// Ranges of all ServiceCIDRs.
    pub service_cidrs: Vec<IpNet>,
}

/// Checks the addresses of a kubelet serving certificate: each must belong to the node, and to no other node, Service
/// or API server.
pub fn serving_denial(
    name: &str,
    addresses: &[IpAddr],
    foreign: &ForeignAddresses,
    reserved: &ReservedNames,
) -> Option<DenialReason> {
    let Some(own) = foreign.nodes.iter().find(|node| node.metadata.name == name) else {
        return Some(DenialReason::NoNode(name.to_owned()));
    };
    let own_addresses: HashSet<IpAddr> = addresses_of(own).collect();
    let mut owners: HashMap<IpAddr, &str> = HashMap::new();
    for other in foreign.nodes.iter().filter(|node| node.metadata.name != name) {
        for address in addresses_of(other) {
            owners.entry(address).or_insert(&other.metadata.name);
        }
    }
    addresses.iter().copied().find_map(|requested| {
        let address = requested.to_canonical();
        if let Some(address_kind) = unusable_kind(address, &foreign.service_cidrs) {
            return Some(DenialReason::UnusableAddress {
                address,
                address_kind,
            });
        }
        let is_of_server = foreign.api_servers.contains(&address) || reserved.has_address(address);
        let owner = match owners.get(&address) {
            Some(another) => Some(format!("Node {another:?}")),
            None => is_of_server.then(|| "an API server".to_owned()),
        };
        if let Some(owner) = owner {
            return Some(DenialReason::AddressTaken { address, owner });
        }
        let node = name.to_owned();
        (!own_addresses.contains(&address)).then_some(DenialReason::NotItsAddress { node, address })
    })
}

/// Returns the addresses that a Node reports. A compromised node can report tens of thousands, and request as many.
fn addresses_of(node: &Node) -> impl Iterator<Item = IpAddr> {
    let addresses = node.status.addresses.iter();
    addresses.filter_map(|of_node| Some(of_node.address.parse::<IpAddr>().ok()?.to_canonical()))
}

/// Returns the reason why an address does not identify a single host.
fn unusable_kind(address: IpAddr, service_cidrs: &[IpNet]) -> Option<&'static str> {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    match address {
        _ if address.is_loopback() => Some("a loopback address"),
        _ if address.is_unspecified() => Some("the unspecified address"),
        _ if address.is_multicast() => Some("a multicast address"),
        _ if is_link_local => Some("a link-local address"),
        _ if service_cidrs.iter().any(|range| range.contains(&address)) => Some("in a Service CIDR"),
        _ => None,
    }
}
