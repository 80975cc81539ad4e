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
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn client(number: usize) -> IpAddr {
        Ipv4Addr::from_bits(number as u32).into()
    }

    #[test]
    fn a_client_stays_until_its_time_is_over() {
        let backend: SocketAddr = ([10, 0, 0, 1], 80).into();
        let mut sticky = Sticky::new(Duration::from_secs(60));
        sticky.remember(client(1), backend, Duration::from_secs(100));
        assert_eq!(sticky.backend(client(1), Duration::from_secs(159)), Some(backend));
        assert_eq!(sticky.backend(client(1), Duration::from_secs(160)), None);
        assert_eq!(sticky.backend(client(2), Duration::from_secs(100)), None);
        sticky.keep_only(|_| false);
        assert_eq!(sticky.backend(client(1), Duration::from_secs(100)), None);
    }

    #[test]
    fn a_full_table_takes_new_clients_when_others_have_expired() {
        let backend: SocketAddr = ([10, 0, 0, 1], 80).into();
        let mut sticky = Sticky::new(Duration::from_secs(60));
        for number in 0..CLIENTS_MAX {
            sticky.remember(client(number), backend, Duration::ZERO);
        }
        let newcomer = client(CLIENTS_MAX);
        sticky.remember(newcomer, backend, Duration::from_secs(59));
        assert_eq!(sticky.backend(newcomer, Duration::from_secs(59)), None);
        sticky.remember(client(0), backend, Duration::from_secs(59));
        sticky.remember(newcomer, backend, Duration::from_secs(60));
        assert_eq!(sticky.backend(newcomer, Duration::from_secs(60)), Some(backend));
        assert_eq!(sticky.clients.len(), 2);
    }
}
