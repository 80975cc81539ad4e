//! Identities of the components of a node: the agent (`system:node:NODE` of `system:nodes`, as upstream) or another
//! component ([`NodePart`]). Each component of each node is a user of its own. The audit log therefore distinguishes
//! the components, and the rights of one component can be revoked alone.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::{INCARNATION, NODE_USER_PREFIX, NODES};
use crate::kinds::object::Node;
use crate::machinery::names;

/// Length of an incarnation's digest. The input is not chosen by clients, so only chance collisions matter.
const DIGEST_BYTES: usize = 16;

/// Component of a node, in addition to the agent, that is a client of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodePart {
    /// Node proxy.
    Proxy,
    /// DNS server.
    Dns,
    /// Announcer of load balancer IPs.
    Announcer,
    /// Edge of load balancer IPs.
    Edge,
}

impl NodePart {
    /// All components.
    pub const ALL: [NodePart; 4] = [
        NodePart::Proxy,
        NodePart::Dns,
        NodePart::Announcer,
        NodePart::Edge,
    ];

    /// Returns the group of the component on all nodes, to which roles are bound.
    pub const fn group(self) -> &'static str {
        match self {
            NodePart::Proxy => "system:portolan:proxies",
            NodePart::Dns => "system:portolan:dns",
            NodePart::Announcer => "system:portolan:announcers",
            NodePart::Edge => "system:portolan:edges",
        }
    }

    /// Returns the user name of the component on one node: `system:portolan-edge:NODE`.
    pub fn user(self, node_name: &str) -> String {
        format!("{}{node_name}", self.user_prefix())
    }

    /// Returns the prefix of the user name, before the node name.
    pub const fn user_prefix(self) -> &'static str {
        match self {
            NodePart::Proxy => "system:kube-proxy:",
            NodePart::Dns => "system:kube-dns:",
            NodePart::Announcer => "system:portolan-announcer:",
            NodePart::Edge => "system:portolan-edge:",
        }
    }
}

/// Node and component of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeIdentity<'u> {
    /// Name of the Node.
    pub node_name: &'u str,
    /// Component; `None` for the agent.
    pub part: Option<NodePart>,
}

impl<'u> NodeIdentity<'u> {
    /// Reads user name and groups; `None` for a user that belongs to no node.
    pub fn of(user: &'u str, groups: &[impl AsRef<str>]) -> Option<Self> {
        let is_in = |requested: &str| groups.iter().any(|group| group.as_ref() == requested);
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

/// Error of a text that is not a valid Node name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeNameError {
    /// Not of the form of a Node name.
    #[error("{name:?} is not a valid Node name: {reason}")]
    Form {
        /// Rejected text.
        name: String,
        /// Broken rule, in upstream's words.
        reason: String,
    },
    /// Clients could confuse the node with the API server or with a Service.
    #[error("{0:?} is a name of the API server or of the cluster's own zone; join with another --node-name")]
    Reserved(String),
}

/// Domains that are reserved, with all names below them.
const RESERVED_DOMAINS: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "svc",
    "cluster.local",
];

/// Checks a Node name: a lower-case RFC 1123 subdomain outside of the cluster domain and of the names of the API
/// server.
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

/// Incarnation of a Node. It changes when the Node is deleted and created again, and when another host joins under
/// the name. The node's certificates carry it, so certificates of an earlier incarnation are invalid at any time. A
/// token for a replacement names it, so that the token is valid once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incarnation(String);

impl Incarnation {
    /// Returns the incarnation for a `metadata.uid` and a value of [`INCARNATION`], "" if absent. The result is a
    /// digest, since an organizational unit has at most 64 characters.
    pub fn new(uid: &str, joined_by_request: &str) -> Self {
        let digest = Sha256::digest(format!("{uid}/{joined_by_request}"));
        let digest = digest.iter().take(DIGEST_BYTES);
        Self(digest.map(|byte| format!("{byte:02x}")).collect())
    }

    /// Returns the current incarnation of a Node.
    pub fn of_node(node: &Node) -> Self {
        let joined_by_request = node.metadata.annotations.get(INCARNATION);
        Self::new(&node.metadata.uid, joined_by_request.map_or("", String::as_str))
    }

    /// Reads the output of `Display`.
    pub fn from_text(text: &str) -> Self {
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
