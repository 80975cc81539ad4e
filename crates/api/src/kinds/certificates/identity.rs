//! Who a certificate stands for on a node's machine: the agent (`system:node:NODE` of `system:nodes`, upstream's) or one
//! of the other parts ([`NodePart`]). Every machine and every part has a user of its own, so that the audit log tells
//! them apart and one machine can be cut off alone.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::{INCARNATION, NODE_USER_PREFIX, NODES};
use crate::kinds::object::Node;
use crate::machinery::names;

/// Bytes of an incarnation's digest: nobody chooses what goes into it, so chance alone could make two alike.
const DIGEST_BYTES: usize = 16;

/// A part of a node's machine beside its agent that is a client of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodePart {
    /// The proxy.
    Proxy,
    /// The DNS server.
    Dns,
    /// The announcer of load balancers' addresses.
    Announcer,
    /// The edge.
    Edge,
}

impl NodePart {
    /// All of them.
    pub const ALL: [NodePart; 4] = [
        NodePart::Proxy,
        NodePart::Dns,
        NodePart::Announcer,
        NodePart::Edge,
    ];

    /// The group of this part on all nodes, to which roles are bound.
    pub const fn group(self) -> &'static str {
        match self {
            NodePart::Proxy => "system:portolan:proxies",
            NodePart::Dns => "system:portolan:dns",
            NodePart::Announcer => "system:portolan:announcers",
            NodePart::Edge => "system:portolan:edges",
        }
    }

    /// The user of this part on one node: `system:portolan-edge:NODE`.
    pub fn user(self, node_name: &str) -> String {
        format!("{}{node_name}", self.user_prefix())
    }

    /// The beginning of the user's name, up to the name of the node.
    pub const fn user_prefix(self) -> &'static str {
        match self {
            NodePart::Proxy => "system:kube-proxy:",
            NodePart::Dns => "system:kube-dns:",
            NodePart::Announcer => "system:portolan-announcer:",
            NodePart::Edge => "system:portolan-edge:",
        }
    }
}

/// The Node that a user belongs to, and which part of its machine the user is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeIdentity<'u> {
    /// The name of the Node.
    pub node_name: &'u str,
    /// The part; `None` for the agent.
    pub part: Option<NodePart>,
}

impl<'u> NodeIdentity<'u> {
    /// Reads the name of a user and the groups; `None` for a user of no node.
    pub fn of(user: &'u str, groups: &[impl AsRef<str>]) -> Option<Self> {
        let is_in = |wanted: &str| groups.iter().any(|group| group.as_ref() == wanted);
        let named = |prefix: &str| user.strip_prefix(prefix).filter(|name| !name.is_empty());
        if let Some(node_name) = named(NODE_USER_PREFIX) {
            return is_in(NODES).then_some(Self {
                node_name,
                part: None,
            });
        }
        NodePart::ALL.into_iter().find_map(|part| {
            let node_name = named(part.user_prefix()).filter(|_| is_in(part.group()))?;
            Some(Self {
                node_name,
                part: Some(part),
            })
        })
    }
}

/// Reason for which a text is not the name of a Node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeNameError {
    /// Not in the form of a Node's name.
    #[error("{name:?} is no name of a Node: {reason}")]
    Form {
        /// The text.
        name: String,
        /// The rule that it breaks, in upstream's words.
        reason: String,
    },
    /// A client could take the machine for the API server or for a Service.
    #[error("{0:?} is a name of the API server or of the cluster's own zone; join with another --node-name")]
    Reserved(String),
}

/// Names that no machine gets, nor any name below them.
const RESERVED_DOMAINS: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "svc",
    "cluster.local",
];

/// Checks the name of a Node: an RFC 1123 subdomain in small letters, outside of the cluster's zone and of everything
/// that clients call the API server by.
///
/// # Errors
/// See [`NodeNameError`].
pub fn check_node_name<'n>(
    name: &str,
    cluster_domain: &str,
    api_server_names: impl IntoIterator<Item = &'n str>,
) -> Result<(), NodeNameError> {
    if let Some(reason) = names::dns_subdomain(name).into_iter().next() {
        let name = name.to_owned();
        return Err(NodeNameError::Form { name, reason });
    }
    let is_within = |domain: &str| {
        let domain = domain.trim_matches('.').to_ascii_lowercase();
        let rest = name.strip_suffix(&domain).filter(|_| !domain.is_empty());
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let is_service = name.starts_with("kubernetes.default.") || RESERVED_DOMAINS.into_iter().any(is_within);
    let mut api_servers = api_server_names.into_iter();
    if is_service || is_within(cluster_domain) || api_servers.any(|server| server.eq_ignore_ascii_case(name))
    {
        return Err(NodeNameError::Reserved(name.to_owned()));
    }
    Ok(())
}

/// The incarnation of a Node: another one after it was removed and made again, and after another machine joined under its
/// name. Certificates of the Node's machine carry it, so that those of an earlier incarnation count no more, whatever the
/// time. A token that lets one machine replace another names it, so that it does so once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incarnation(String);

impl Incarnation {
    /// That of a Node with this `metadata.uid` and this value of [`INCARNATION`], "" without one. It is a digest, as an
    /// organizational unit has 64 letters at most.
    pub fn new(uid: &str, joined_by_request: &str) -> Self {
        let digest = Sha256::digest(format!("{uid}/{joined_by_request}"));
        let digest = digest.iter().take(DIGEST_BYTES);
        Self(digest.map(|byte| format!("{byte:02x}")).collect())
    }

    /// That of a Node as it is.
    pub fn of_node(node: &Node) -> Self {
        let joined_by_request = node.metadata.annotations.get(INCARNATION);
        Self::new(&node.metadata.uid, joined_by_request.map_or("", String::as_str))
    }

    /// As it was written down by [`fmt::Display`].
    pub fn written(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests;
