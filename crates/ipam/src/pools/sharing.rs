//! Who may hold an address together.

use std::collections::BTreeSet;

/// A port of a holder: protocol number and port.
pub type PortOf = (u8, u16);

/// How a holder shares its addresses: with those of the same key, other ports, and backends that are found alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    key: Option<String>,
    ports: BTreeSet<PortOf>,
    backends: Option<String>,
}

/// Why two holders do not share an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotShared {
    /// One of them, or both, do not want to.
    #[error("which does not share it under the same key")]
    Key,
    /// Traffic could not be told apart.
    #[error("which has a port in common with this Service")]
    Ports,
    /// Traffic of one address goes to one node, which need not have backends of both.
    #[error("and both need externalTrafficPolicy Cluster, or Local with the same selector, to share it")]
    Backends,
}

impl Sharing {
    /// Sharing under `key`, with nobody if it is `None`. `backends` says where traffic must arrive: `None` if any
    /// node will do, else what chooses the backends.
    pub fn new(
        key: Option<String>,
        ports: impl IntoIterator<Item = PortOf>,
        backends: Option<String>,
    ) -> Self {
        Self {
            key: key.filter(|key| !key.is_empty()),
            ports: ports.into_iter().collect(),
            backends,
        }
    }

    pub(super) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// What keeps the two from sharing; the same from both sides.
    pub(super) fn obstacle(&self, other: &Self) -> Option<NotShared> {
        if self.key.is_none() || self.key != other.key {
            Some(NotShared::Key)
        } else if !self.ports.is_disjoint(&other.ports) {
            Some(NotShared::Ports)
        } else if self.backends != other.backends {
            Some(NotShared::Backends)
        } else {
            None
        }
    }
}
