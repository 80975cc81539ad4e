//! Limits of connections: in total, per client, and for clients that are not allowed.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};

use super::waiting_responses::WaitingResponses;

/// Limit of open connections. Each uses a file descriptor and a few kilobytes. At the limit, idle connections are
/// closed.
const CONNECTIONS_MAX: usize = 12_000;
/// Limit of open connections per client. Queries can share a connection, so clients need few connections.
const CONNECTIONS_PER_CLIENT_MAX: u32 = 128;
/// Limit of open connections of all clients that are not allowed. They get a refusal, and cannot exhaust the
/// connections of allowed clients.
const REFUSED_CLIENT_CONNECTIONS_MAX: usize = 256;
/// Limit of concurrent zone transfers; each holds the whole zone in memory.
const TRANSFERS_MAX: usize = 1;
/// Idle timeout of a connection while the server is at its limit.
pub(super) const IDLE_TIMEOUT_AT_LIMIT: Duration = Duration::from_secs(1);

/// Counts of open connections.
#[derive(Debug)]
pub(super) struct Connections {
    open_max: usize,
    open: Mutex<OpenConnections>,
    /// Signal to idle connections to close, because the limit is reached.
    pub(super) pressure: Notify,
    pub(super) transfers: Semaphore,
    /// Responses that clients have not received yet.
    pub(super) waiting: WaitingResponses,
}

/// Numbers of open connections.
#[derive(Debug, Default)]
struct OpenConnections {
    total: usize,
    refused_client_connections: usize,
    clients: HashMap<IpAddr, u32>,
}

/// Permit for one connection; dropping it releases the permit.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    connections: Arc<Connections>,
    client: IpAddr,
    is_allowed: bool,
}

impl Connections {
    /// Creates the counts. File descriptors limit the connections too: a quarter of them is kept for other uses.
    pub(super) fn new() -> Arc<Self> {
        Self::with_waiting(WaitingResponses::new())
    }

    /// Creates the counts with those of waiting responses.
    pub(super) fn with_waiting(waiting: WaitingResponses) -> Arc<Self> {
        let descriptors = usize::try_from(netlink::rlimit::open_files()).unwrap_or(usize::MAX);
        Arc::new(Self {
            open_max: CONNECTIONS_MAX.min(descriptors / 4 * 3),
            open: Mutex::default(),
            pressure: Notify::new(),
            transfers: Semaphore::new(TRANSFERS_MAX),
            waiting,
        })
    }

    /// Returns a permit for a connection of `client`, as [`Policy::counted_client`](super::Policy) counts it, or `None` if
    /// a limit is reached.
    pub(super) fn admit(self: &Arc<Self>, client: IpAddr, is_allowed: bool) -> Option<ConnectionPermit> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_allowed && open.refused_client_connections >= REFUSED_CLIENT_CONNECTIONS_MAX {
            return None;
        }
        if open.total >= self.open_max {
            self.pressure.notify_waiters();
            return None;
        }
        let count = open.clients.entry(client).or_insert(0);
        if *count >= CONNECTIONS_PER_CLIENT_MAX && !client.is_loopback() {
            return None;
        }
        *count += 1;
        open.total += 1;
        open.refused_client_connections += usize::from(!is_allowed);
        Some(ConnectionPermit {
            connections: self.clone(),
            client,
            is_allowed,
        })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = self
            .connections
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        open.total -= 1;
        open.refused_client_connections -= usize::from(!self.is_allowed);
        if let Some(count) = open.clients.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                open.clients.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests;
