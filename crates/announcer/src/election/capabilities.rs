//! Node capabilities: the edge, and the links of a node. Some addresses require them.
//!
//! A node that labels and endpoints make a candidate cannot announce an address without the capabilities that the
//! address requires. Nodes therefore advertise their capabilities to each other, and only nodes that satisfy the
//! requirements of an address claim it.

use std::collections::BTreeSet;

/// Maximum number of missing links in an advertisement, bounded by the datagram size. Links beyond it count as present.
pub(crate) const MISSING_LINKS_MAX: usize = 8;

/// Identifier of a set of link names, equal on all nodes for the same names ([`crate::l2::links::AddressLinks`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkSetId(pub u64);

/// Requirements of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requirements {
    /// True if the edge serves at least one port of the address.
    pub(crate) edge: bool,
    /// Links of the AddressPool; `None` selects the default links of the announcer.
    pub(crate) links: Option<LinkSetId>,
}

impl Requirements {
    /// Returns true if every node satisfies the requirements.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Capabilities of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCapabilities {
    /// True if the process runs an edge.
    pub has_edge: bool,
    /// Required link sets of which the node has no link.
    pub missing_links: BTreeSet<LinkSetId>,
}

impl NodeCapabilities {
    /// Returns true if the node can announce an address with these requirements.
    pub(crate) fn satisfy(&self, requirements: &Requirements) -> bool {
        let has_links = requirements
            .links
            .is_none_or(|links| !self.missing_links.contains(&links));
        has_links && (self.has_edge || !requirements.edge)
    }

    /// Returns the capabilities as other nodes receive them, with at most [`MISSING_LINKS_MAX`] missing links.
    pub(crate) fn advertised(&self) -> Self {
        Self {
            has_edge: self.has_edge,
            missing_links: self
                .missing_links
                .iter()
                .take(MISSING_LINKS_MAX)
                .copied()
                .collect(),
        }
    }
}
