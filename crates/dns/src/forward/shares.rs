//! Shares of the clients in a limit for all of them, such as that of open forwarded queries.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// A client may hold one quarter of the permits, because it can be the cache of a whole node.
const SHARE_DIVISOR: usize = 4;
/// Client address of queries by which the server refreshes its own cache.
pub(super) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Number of permits that each client holds, and its maximum.
#[derive(Debug)]
pub(super) struct Shares {
    /// Maximum number of permits of one client.
    share_max: usize,
    /// Number of permits of each client that holds any.
    clients: Mutex<HashMap<IpAddr, usize>>,
}

/// A permit within the share of a client; dropping it releases the permit.
#[derive(Debug)]
pub(super) struct SharePermit {
    shares: Arc<Shares>,
    client: IpAddr,
}

impl Shares {
    /// Creates the shares of a limit, all of them unused.
    pub(super) fn of(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            share_max: (limit / SHARE_DIVISOR).max(1),
            clients: Mutex::default(),
        })
    }

    /// Returns a permit, or `None` if the client holds its share. Loopback addresses are not limited.
    pub(super) fn take(self: &Arc<Self>, client: IpAddr) -> Option<SharePermit> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let held = clients.entry(client).or_default();
        if *held >= self.share_max && !client.is_loopback() {
            return None;
        }
        *held += 1;
        Some(SharePermit {
            shares: Arc::clone(self),
            client,
        })
    }
}

impl Drop for SharePermit {
    fn drop(&mut self) {
        let mut clients = self.shares.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = clients.get_mut(&self.client) {
            *held -= 1;
            if *held == 0 {
                clients.remove(&self.client);
            }
        }
    }
}
