//! A Service's port as it is served: what all of its connections share.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::backends::{Backends, Chosen};
use crate::log::Log;
use crate::settings::{Frontend, Listener, ServiceName, ServiceSettings};

/// TCP or UDP: a Service may have the same number for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

impl Transport {
    /// What a frontend needs.
    pub fn of(frontend: &Frontend) -> Self {
        match frontend {
            Frontend::Udp => Self::Udp,
            Frontend::Tcp | Frontend::Ssl(_) | Frontend::Http { .. } | Frontend::Https(_) => Self::Tcp,
        }
    }
}

/// Which port of which Service.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortKey {
    /// The Service.
    pub service: ServiceName,
    /// The port that clients use.
    pub port: u16,
    /// For connections or for datagrams.
    pub transport: Transport,
}

impl fmt::Display for PortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.service, self.port)
    }
}

/// What a port is to do at the moment. Replaced as a whole when settings change; connections that began with the former
/// one keep what they need of it.
#[derive(Debug)]
pub struct Current {
    /// The Service's.
    pub service: Arc<ServiceSettings>,
    /// The port's.
    pub listener: Listener,
    /// Where lines about its connections and requests go.
    pub log: Option<Arc<Log>>,
    /// How TLS ends here; `None` for frontends without TLS, and while no certificate can be used.
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
}

/// A port.
#[derive(Debug)]
pub struct Port {
    /// Which one.
    pub key: PortKey,
    current: ArcSwap<Current>,
    backends: Backends,
    counters: Counters,
    drain: watch::Sender<bool>,
}

impl Port {
    /// What it is to do now.
    pub fn current(&self) -> Arc<Current> {
        self.current.load_full()
    }

    /// The backend for a client's new connection or request, none of those that were tried in vain; nothing if there is
    /// none. It counts as the backend's until it is dropped.
    pub fn choose(&self, client: IpAddr, tried: &[SocketAddr]) -> Option<Chosen> {
        self.backends.choose(client, tried)
    }

    /// The backend of that id ([`crate::backends::Backend::id`]), if it may take a connection or request: for cookies.
    pub fn choose_by_id(&self, id: u64) -> Option<Chosen> {
        self.backends.choose_by_id(id)
    }

    /// What is counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Becomes true when connections are to end as soon as they decently can: the edge drains, or the port is no more.
    pub fn drain(&self) -> watch::Receiver<bool> {
        self.drain.subscribe()
    }
}
