//! Shares of the clients in a limit for all of them, such as that of open forwarded queries.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A client may hold a third of the permits that are free. One client then has a quarter of all, because it can be the
/// cache of a whole node, and several clients leave permits to others.
const FREE_DIVISOR: usize = 3;
/// Client address of queries by which the server refreshes its own cache.
pub(super) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Number of permits that each client holds, of a limit.
#[derive(Debug)]
pub(super) struct Shares {
    limit: usize,
    counts: Mutex<Counts>,
}

/// Number of permits of all clients, and of each client that holds any.
#[derive(Debug, Default)]
struct Counts {
    total: usize,
    clients: HashMap<IpAddr, usize>,
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
            limit,
            counts: Mutex::default(),
        })
    }

    /// Returns a permit, or `None` if the client holds its share. Loopback addresses are not limited.
    pub(super) fn take(self: &Arc<Self>, client: IpAddr) -> Option<SharePermit> {
        let mut counts = self.counts();
        let held = counts.clients.get(&client).copied().unwrap_or_default();
        let free = self.limit.saturating_sub(counts.total);
        if held >= free.div_ceil(FREE_DIVISOR) && !client.is_loopback() {
            return None;
        }
        counts.total += 1;
        counts.clients.insert(client, held + 1);
        Some(SharePermit {
            shares: Arc::clone(self),
            client,
        })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SharePermit {
    fn drop(&mut self) {
        let mut counts = self.shares.counts();
        counts.total -= 1;
        if let Some(held) = counts.clients.get_mut(&self.client) {
            *held -= 1;
            if *held == 0 {
                counts.clients.remove(&self.client);
            }
        }
    }
}
