//! What not every node has, and some addresses need: an edge, and the links that pools name.
//!
//! A node that should have an address by its labels and its endpoints cannot answer for it without these. So nodes tell
//! each other what they have, and only those that have what it takes come into question.

use std::collections::BTreeSet;

/// Most links that a node tells it lacks: datagrams have room for no more. What is beyond it is taken to have.
pub const LACKS_MAX: usize = 8;

/// Which links are meant: the same number on all machines for the same names ([`crate::l2::links::AddressLinks`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinksId(pub u64);

/// What an address needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The edge takes its traffic, or some of it.
    pub edge: bool,
    /// It is announced on these links, and not on those that announcers were told to use.
    pub links: Option<LinksId>,
}

impl Needs {
    /// Whether every node has it.
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }
}

/// What a node has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Means {
    /// Whether its process has an edge.
    pub has_edge: bool,
    /// Those links that addresses are announced on of which it has none.
    pub lacks: BTreeSet<LinksId>,
}

impl Means {
    /// Whether it has what an address needs.
    pub fn meet(&self, needs: &Needs) -> bool {
        let has_links = needs.links.is_none_or(|links| !self.lacks.contains(&links));
        has_links && (self.has_edge || !needs.edge)
    }

    /// As others hear of it.
    pub fn told(&self) -> Self {
        Self {
            has_edge: self.has_edge,
            lacks: self.lacks.iter().take(LACKS_MAX).copied().collect(),
        }
    }
}
