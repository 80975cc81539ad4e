//! Session affinity by client address. Pure: times are durations since a fixed epoch.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Maximum number of clients of a port. Further clients have no affinity until others expire. A client that connects
/// from many addresses therefore cannot exhaust the memory of this node.
const CLIENTS_MAX: usize = 65_536;
/// Interval between removals from a full table. A removal costs as much as thousands of look-ups.
const REMOVAL_INTERVAL: Duration = Duration::from_secs(1);

/// Backends of clients.
#[derive(Debug)]
pub(super) struct StickyClients {
    timeout: Duration,
    /// Backend and the time of the last connection.
    clients: HashMap<IpAddr, (SocketAddr, Duration)>,
    next_removal: Duration,
}

impl StickyClients {
    /// Creates an empty table. A client expires `timeout` after its last connection.
    pub(super) fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            clients: HashMap::new(),
            next_removal: Duration::ZERO,
        }
    }

    /// Sets another timeout.
    pub(super) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Returns the backend of a client.
    pub(super) fn backend(&self, client: IpAddr, now: Duration) -> Option<SocketAddr> {
        let (backend, last) = self.clients.get(&client)?;
        (now.saturating_sub(*last) < self.timeout).then_some(*backend)
    }

    /// Sets the backend of a client that connects now.
    pub(super) fn insert(&mut self, client: IpAddr, backend: SocketAddr, now: Duration) {
        if self.clients.len() >= CLIENTS_MAX && !self.clients.contains_key(&client) {
            if now < self.next_removal {
                return;
            }
            self.next_removal = now + REMOVAL_INTERVAL;
            let timeout = self.timeout;
            self.clients
                .retain(|_, (_, last)| now.saturating_sub(*last) < timeout);
            if self.clients.len() >= CLIENTS_MAX {
                return;
            }
        }
        self.clients.insert(client, (backend, now));
    }

    /// Removes the clients of other backends.
    pub(super) fn retain_backends(&mut self, is_present: impl Fn(SocketAddr) -> bool) {
        self.clients.retain(|_, (backend, _)| is_present(*backend));
    }
}

#[cfg(test)]
mod tests;
