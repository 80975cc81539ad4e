//! Sharing of addresses between holders.

use std::collections::BTreeSet;

/// A port of a holder: protocol number and port number.
pub type ProtocolPort = (u8, u16);

/// Use of the ports of an address by a holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortUse {
    /// The nodes forward the listed ports.
    #[default]
    Listed,
    /// The nodes forward ranges of further ports, except ports that they forward for other holders.
    Ranges,
    /// A process of a node listens on the listed ports. The nodes forward none of them.
    Process,
}

/// Sharing of a holder: with holders of the same key, other ports and the same backend selection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    key: Option<String>,
    ports: BTreeSet<ProtocolPort>,
    port_use: PortUse,
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
    /// The nodes would forward the ports of one holder with the ranges of the other.
    #[error("and Services with port ranges share no address with Services of the edge")]
    Ranges,
    /// Traffic of one address goes to one node. The node can lack backends of one of the Services.
    #[error("and both need externalTrafficPolicy Cluster, or Local with the same selector in one namespace")]
    Backends,
}

impl Sharing {
    /// Creates a sharing under `key`; `None` disables it. `backends` selects the backends of a node-local Service;
    /// `None` if any node will do.
    pub fn new(
        key: Option<String>,
        ports: impl IntoIterator<Item = ProtocolPort>,
        backends: Option<String>,
    ) -> Self {
        Self {
            key: key.filter(|key| !key.is_empty()),
            ports: ports.into_iter().collect(),
            port_use: PortUse::default(),
            backends,
        }
    }

    /// Sets the use of the ports.
    pub fn set_port_use(&mut self, port_use: PortUse) {
        self.port_use = port_use;
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
        } else if self.takes_ports_of(other) || other.takes_ports_of(self) {
            Some(NotShared::Ranges)
        } else if self.backends != other.backends {
            Some(NotShared::Backends)
        } else {
            None
        }
    }

    /// Returns true if the nodes would forward ports on which a process listens for `other`.
    fn takes_ports_of(&self, other: &Self) -> bool {
        self.port_use == PortUse::Ranges && other.port_use == PortUse::Process
    }
}
