//! Identity of a Service's port.

use std::fmt;

use crate::settings::{Frontend, ServiceName};

/// Transport protocol of a port. A Service may use the same number for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// TCP connections.
    Tcp,
    /// UDP datagrams.
    Udp,
}

impl Transport {
    /// Returns the transport that a frontend needs.
    pub fn of(frontend: &Frontend) -> Self {
        match frontend {
            Frontend::Udp => Self::Udp,
            Frontend::Tcp | Frontend::Ssl(_) | Frontend::Http { .. } | Frontend::Https(_) => Self::Tcp,
        }
    }

    /// Returns the name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// Port of a Service.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortKey {
    /// Service of the port.
    pub service: ServiceName,
    /// Port that clients use.
    pub port: u16,
    /// Connections or datagrams.
    pub transport: Transport,
}

impl fmt::Display for PortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}/{}", self.service, self.port, self.transport.name())
    }
}
