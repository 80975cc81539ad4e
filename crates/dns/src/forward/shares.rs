//! Share of a client of a limit that all clients have together.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Part of a limit that one client can use: a quarter. A client can be a cache for a whole node.
const SHARE_DIVISOR: usize = 4;
/// Stands for the server itself, which refreshes entries of its cache.
pub(super) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// What clients use of a limit.
#[derive(Debug)]
pub(super) struct Shares {
    share_max: usize,
    clients: Mutex<HashMap<IpAddr, usize>>,
}

/// A unit that a client uses; dropping it releases the unit.
#[derive(Debug)]
pub(super) struct Unit {
    shares: Arc<Shares>,
    client: IpAddr,
}

impl Shares {
    /// Creates the shares of a limit.
    pub(super) fn of(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            share_max: (limit / SHARE_DIVISOR).max(1),
            clients: Mutex::default(),
        })
    }

    /// Returns a unit, or `None` if the client uses its share. Clients of the host have no limit of their own.
    pub(super) fn take(self: &Arc<Self>, client: IpAddr) -> Option<Unit> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let used = clients.entry(client).or_default();
        if *used >= self.share_max && !client.is_loopback() {
            return None;
        }
        *used += 1;
        Some(Unit {
            shares: Arc::clone(self),
            client,
        })
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        let mut clients = self.shares.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = clients.get_mut(&self.client) {
            *used -= 1;
            if *used == 0 {
                clients.remove(&self.client);
            }
        }
    }
}
