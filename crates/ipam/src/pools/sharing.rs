//! Sharing of addresses between holders.

use std::collections::BTreeSet;

/// A port of a holder: protocol number and port number.
pub type PortOf = (u8, u16);

/// Sharing of a holder: with holders of the same key, other ports and the same backend selection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    key: Option<String>,
    ports: BTreeSet<PortOf>,
    backends: Option<String>,
}

/// Reason why two holders cannot share an address. The text continues the sentence `ADDRESS is in use by SERVICE, …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotShared {
    /// At least one of the holders does not share under this key.
    #[error("which does not share it under the same key")]
    Key,
    /// Both have the same port.
    #[error("which has a port in common with this Service")]
    Ports,
    /// Traffic of one address goes to one node, which need not have backends of both.
    #[error("and both need externalTrafficPolicy Cluster, or Local with the same selector, to share it")]
    Backends,
}

impl Sharing {
    /// Creates a sharing under `key`; `None` disables it. `backends` selects the backends of a node-local Service;
    /// `None` if any node will do.
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

    /// Returns the reason why two holders cannot share; symmetric.
    pub(super) fn sharing_conflict(&self, other: &Self) -> Option<NotShared> {
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
