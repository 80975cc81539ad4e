//! Connection permits with a limit in total and a limit for each client address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(test)]
mod tests;

/// Pool of permits. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct ConnectionPermits {
    issued: Arc<Mutex<HashMap<IpAddr, usize>>>,
    total_max: usize,
    per_address_max: usize,
}

/// Right to serve one connection, until it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    pool: ConnectionPermits,
    address: IpAddr,
}

impl ConnectionPermits {
    /// Returns a pool without issued permits.
    pub(super) fn new(total_max: usize, per_address_max: usize) -> Self {
        Self {
            issued: Arc::default(),
            total_max,
            per_address_max,
        }
    }

    /// Returns a permit for a connection from an address, unless a limit is reached.
    pub(super) fn acquire(&self, address: IpAddr) -> Option<ConnectionPermit> {
        let address = address.to_canonical();
        let mut issued = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = issued.values().sum();
        let address_count = issued.get(&address).copied().unwrap_or_default();
        if total >= self.total_max || address_count >= self.per_address_max {
            return None;
        }
        issued.insert(address, address_count + 1);
        Some(ConnectionPermit {
            pool: self.clone(),
            address,
        })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut issued = self.pool.issued.lock().unwrap_or_else(PoisonError::into_inner);
        match issued.get_mut(&self.address) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(issued.remove(&self.address)),
        }
    }
}
