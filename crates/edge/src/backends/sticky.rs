//! Clients that stay with their backend. Pure; times are durations since any moment that stays the same.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Clients that a port remembers. Beyond that, new ones are not remembered until some expire: who comes once from each of
/// many addresses must not take this node's memory.
pub const CLIENTS_MAX: usize = 65_536;
/// A full table is searched for expired clients at most once in so long: a search costs as much as thousands of look-ups.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

/// Which client belongs to which backend.
#[derive(Debug)]
pub struct Sticky {
    timeout: Duration,
    clients: HashMap<IpAddr, (SocketAddr, Duration)>,
    search_at: Duration,
}

impl Sticky {
    /// An empty table, from which clients go so long after their last connection.
    pub fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            clients: HashMap::new(),
            search_at: Duration::ZERO,
        }
    }

    /// Takes over another timeout.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// The backend of a client.
    pub fn backend(&self, client: IpAddr, now: Duration) -> Option<SocketAddr> {
        let (backend, last) = self.clients.get(&client)?;
        (now.saturating_sub(*last) < self.timeout).then_some(*backend)
    }

    /// Remembers the backend of a client that connects now.
    pub fn remember(&mut self, client: IpAddr, backend: SocketAddr, now: Duration) {
        if self.clients.len() >= CLIENTS_MAX && !self.clients.contains_key(&client) {
            if now < self.search_at {
                return;
            }
            self.search_at = now + SEARCH_INTERVAL;
            let timeout = self.timeout;
            self.clients
                .retain(|_, (_, last)| now.saturating_sub(*last) < timeout);
            if self.clients.len() >= CLIENTS_MAX {
                return;
            }
        }
        self.clients.insert(client, (backend, now));
    }

    /// Forgets clients whose backend is none of these any more.
    pub fn keep_only(&mut self, is_there: impl Fn(SocketAddr) -> bool) {
        self.clients.retain(|_, (backend, _)| is_there(*backend));
    }
}

#[cfg(test)]
mod tests;
