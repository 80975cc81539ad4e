//! Client of a traced connection: a Pod, a node or a host outside of the cluster.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use plan::Family;
use serde::Serialize;

use crate::kind::Kind;
use crate::views::{Node, Pod};
use crate::world::World;

/// Namespace of Pods that are named without one.
const DEFAULT_NAMESPACE: &str = "default";

/// Name of a client: `pod/shop/cart-1`, `pod/cart-1`, `node/node-a`, or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientName {
    /// Pod with a network of its own, or in that of its node.
    Pod {
        /// Namespace; `default` if the name has none.
        namespace: String,
        /// Name within the namespace.
        name: String,
    },
    /// Process in the network of a node.
    Node(String),
    /// Host outside of the cluster, unless a Pod or Node has the address.
    Address(IpAddr),
}

/// Text that is not the name of a client. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidClient(String);

impl fmt::Display for InvalidClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forms = "pod/NAMESPACE/NAME, node/NAME, or an IP address";
        write!(f, "{:?} is not a client: expected {forms}", self.0)
    }
}

impl std::error::Error for InvalidClient {}

impl FromStr for ClientName {
    type Err = InvalidClient;

    fn from_str(text: &str) -> Result<Self, InvalidClient> {
        let parts: Vec<&str> = text.split('/').collect();
        let pod = |namespace: &str, name: &str| Self::Pod {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        match parts.as_slice() {
            ["pod" | "pods", name] if !name.is_empty() => Ok(pod(DEFAULT_NAMESPACE, name)),
            ["pod" | "pods", namespace, name] if !namespace.is_empty() && !name.is_empty() => {
                Ok(pod(namespace, name))
            }
            ["node" | "nodes", name] if !name.is_empty() => Ok(Self::Node((*name).to_owned())),
            [address] => address
                .parse()
                .map(Self::Address)
                .map_err(|_| InvalidClient(text.to_owned())),
            _ => Err(InvalidClient(text.to_owned())),
        }
    }
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod { namespace, name } => write!(f, "pod/{namespace}/{name}"),
            Self::Node(name) => write!(f, "node/{name}"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// Kind of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum ClientKind {
    /// Pod.
    Pod,
    /// Process in the network of a node.
    Node,
    /// Host outside of the cluster.
    Outside,
}

/// Client of a connection, as the objects describe it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Client {
    /// Kind.
    pub kind: ClientKind,
    /// Namespace of a Pod, or "".
    pub namespace: String,
    /// Name of the Pod or Node, or the address.
    pub name: String,
    /// Addresses.
    pub addresses: Vec<IpAddr>,
    /// Node on which the connection begins, or "".
    pub node: String,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ClientKind::Pod => write!(f, "Pod {}/{}", self.namespace, self.name),
            ClientKind::Node => write!(f, "Node {}", self.name),
            ClientKind::Outside => f.write_str(&self.name),
        }
    }
}

/// Client that the objects do not describe. A retry with other objects can help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// The input has no such Pod or Node.
    Absent {
        /// Name of the client.
        client: ClientName,
    },
    /// The Pod or Node has no address yet.
    WithoutAddress {
        /// Name of the client.
        client: ClientName,
    },
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent { client } => write!(f, "the input has no {client}"),
            Self::WithoutAddress { client } => {
                write!(f, "{client} has no address in its status, so it cannot connect")
            }
        }
    }
}

impl std::error::Error for ClientError {}

impl Client {
    /// Finds a client among the objects. An address of a Pod or Node stands for that Pod or Node.
    ///
    /// # Errors
    ///
    /// A [`ClientError`] if the objects do not describe the client.
    pub fn find(world: &World, requested: &ClientName) -> Result<Self, ClientError> {
        let absent = || ClientError::Absent {
            client: requested.clone(),
        };
        let client = match requested {
            ClientName::Pod { namespace, name } => {
                let pod = world.object(Kind::Pod, namespace, name).map(Pod);
                Self::of_pod(pod.ok_or_else(absent)?)
            }
            ClientName::Node(name) => Self::of_node(world.node(name).ok_or_else(absent)?),
            ClientName::Address(address) => Self::at(world, *address),
        };
        if client.addresses.is_empty() {
            return Err(ClientError::WithoutAddress {
                client: requested.clone(),
            });
        }
        Ok(client)
    }

    /// Returns the first address of a family.
    pub fn address_of(&self, family: Family) -> Option<IpAddr> {
        let mut addresses = self.addresses.iter().copied();
        addresses.find(|address| Family::of(*address) == family)
    }

    fn of_pod(pod: Pod<'_>) -> Self {
        Self {
            kind: ClientKind::Pod,
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            addresses: pod.ips(),
            node: pod.node().to_owned(),
        }
    }

    fn of_node(node: Node<'_>) -> Self {
        Self {
            kind: ClientKind::Node,
            namespace: String::new(),
            name: node.name.clone(),
            addresses: node.primary_ips(),
            node: node.name.clone(),
        }
    }

    fn at(world: &World, address: IpAddr) -> Self {
        let mut pods = world.all(Kind::Pod).map(Pod);
        let pod =
            pods.find(|pod| pod.is_active() && !pod.is_on_host_network() && pod.ips().contains(&address));
        if let Some(pod) = pod {
            return Self::of_pod(pod);
        }
        if let Some(node) = world.nodes().find(|node| node.ips().contains(&address)) {
            return Self::of_node(node);
        }
        Self {
            kind: ClientKind::Outside,
            namespace: String::new(),
            name: address.to_string(),
            addresses: vec![address],
            node: String::new(),
        }
    }
}

#[cfg(test)]
mod tests;
