//! What speaks against a request of a machine. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use api::certificates::{Incarnation, NodeNameError, REPLACES_NODE, check_node_name};
use api::object::{CertificateSigningRequest, Node};
use ipnet::IpNet;

/// Why a machine does not get a certificate that it may ask for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Objection {
    /// The name is none of a machine.
    #[error(transparent)]
    Name(#[from] NodeNameError),
    /// Another machine has the name.
    #[error(
        "a Node named {0:?} exists; join with another --node-name, remove the Node first (`portolan leave` on its machine, or \
         `kubectl delete node`), or join with a token of `portolan token create --replace {0}`"
    )]
    NameTaken(String),
    /// Another machine has joined under the name since the request was made, or the Node was removed.
    #[error("the Node {0:?} was removed or replaced after the request was made; join again")]
    AnotherIncarnation(String),
    /// Not yet: the agent has not made its Node.
    #[error("there is no Node {0:?}")]
    NoNode(String),
    /// Not yet: the Node has not said that it has the address. It will, if it has.
    #[error("the Node {node} does not say that {address} is its address")]
    NotItsAddress {
        /// The Node.
        node: String,
        /// The address.
        address: IpAddr,
    },
    /// The address is none at which a machine alone is reached.
    #[error("{address} is {what}")]
    UnusableAddress {
        /// The address.
        address: IpAddr,
        /// What it is.
        what: &'static str,
    },
    /// The address is another's.
    #[error("{address} is an address of {owner}, too")]
    AddressTaken {
        /// The address.
        address: IpAddr,
        /// Whose else.
        owner: String,
    },
}

impl Objection {
    /// Whether it may pass by itself.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::NotItsAddress { .. } | Self::NoNode(_))
    }
}

/// The names and addresses by which clients know the API servers, and the cluster's zone: no machine gets them.
#[derive(Clone, Debug, Default)]
pub struct Reserved {
    names: Vec<String>,
    addresses: BTreeSet<IpAddr>,
    cluster_domain: String,
}

impl Reserved {
    /// What the API server's certificate is good for, as text, and the domain of the cluster.
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

    /// Returns true if clients know an API server by this address.
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    /// What speaks against the name of a machine.
    pub fn object_to_name(&self, name: &str) -> Option<Objection> {
        let servers = self.names.iter().map(String::as_str);
        check_node_name(name, &self.cluster_domain, servers)
            .err()
            .map(Objection::Name)
    }
}

/// What speaks against a machine that joins under a name which `present` has: everything but a token that was made to
/// replace this very incarnation of the Node.
pub fn object_to_joining(request: &CertificateSigningRequest, present: &Node) -> Option<Objection> {
    let may_replace = request.spec.extra.get(REPLACES_NODE).is_some_and(|replaced| {
        let [name, written] = replaced.as_slice() else {
            return false;
        };
        *name == present.metadata.name && Incarnation::written(written) == Incarnation::of_node(present)
    });
    (!may_replace).then(|| Objection::NameTaken(present.metadata.name.clone()))
}

/// The addresses that are others'.
#[derive(Clone, Debug, Default)]
pub struct Others {
    /// All Nodes, the one that asks among them.
    pub nodes: Vec<Node>,
    /// The API servers', beside those of [`Reserved`].
    pub api_servers: BTreeSet<IpAddr>,
    /// The ranges of Services' cluster IPs.
    pub service_cidrs: Vec<IpNet>,
}

/// What speaks against a Node's agent serving at `addresses`: they are its own, and nobody else's.
pub fn object_to_serving(
    name: &str,
    addresses: &[IpAddr],
    others: &Others,
    reserved: &Reserved,
) -> Option<Objection> {
    let has = |node: &Node, address: IpAddr| {
        let mut addresses = node.status.addresses.iter();
        addresses.any(|of_node| {
            of_node
                .address
                .parse()
                .is_ok_and(|own: IpAddr| own.to_canonical() == address)
        })
    };
    let Some(own) = others.nodes.iter().find(|node| node.metadata.name == name) else {
        return Some(Objection::NoNode(name.to_owned()));
    };
    addresses.iter().copied().find_map(|asked| {
        let address = asked.to_canonical();
        if let Some(what) = unusable(address, &others.service_cidrs) {
            return Some(Objection::UnusableAddress { address, what });
        }
        let another = others
            .nodes
            .iter()
            .find(|node| node.metadata.name != name && has(node, address));
        let is_of_server = others.api_servers.contains(&address) || reserved.has_address(address);
        let owner = match another {
            Some(another) => Some(format!("the Node {}", another.metadata.name)),
            None => is_of_server.then(|| "an API server".to_owned()),
        };
        if let Some(owner) = owner {
            return Some(Objection::AddressTaken { address, owner });
        }
        let node = name.to_owned();
        (!has(own, address)).then_some(Objection::NotItsAddress { node, address })
    })
}

/// Why no machine is reached at an address, or not it alone.
fn unusable(address: IpAddr, service_cidrs: &[IpNet]) -> Option<&'static str> {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    match address {
        _ if address.is_loopback() => Some("a loopback address"),
        _ if address.is_unspecified() => Some("the unspecified address"),
        _ if address.is_multicast() => Some("a multicast address"),
        _ if is_link_local => Some("a link-local address"),
        _ if service_cidrs.iter().any(|range| range.contains(&address)) => {
            Some("in a range of Services' cluster IPs")
        }
        _ => None,
    }
}
