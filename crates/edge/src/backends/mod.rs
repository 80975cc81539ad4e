//! Backends of a port: which of them takes a new connection or request, and how they are.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A backend. It stays the same as long as its address is among the port's.
#[derive(Debug)]
pub struct Backend {
    /// Where it is reached.
    pub address: SocketAddr,
    under_way: AtomicUsize,
    has_left: AtomicBool,
}

impl Backend {
    /// A number that stands for its address, the same on every machine: for cookies.
    pub fn id(&self) -> u64 {
        plan::maglev::hash(self.address.to_string().as_bytes())
    }

    /// Whether it is no more among the port's backends: connections that are kept for further requests are not used again.
    pub fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }
}

/// A backend that takes a connection or request. It counts as under way until this is dropped.
#[derive(Debug)]
pub struct Chosen {
    /// The backend.
    pub backend: Arc<Backend>,
}
