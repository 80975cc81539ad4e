//! Places for connections: so many in all, and so many from one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(test)]
mod tests;

/// The places. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Places {
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
    total_max: usize,
    of_address_max: usize,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    address: IpAddr,
}

impl Places {
    /// All free.
    pub fn new(total_max: usize, of_address_max: usize) -> Self {
        Self {
            taken: Arc::default(),
            total_max,
            of_address_max,
        }
    }

    /// A place for a connection from an address, if one is free.
    pub fn take(&self, address: IpAddr) -> Option<Place> {
        let address = address.to_canonical();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = taken.values().sum();
        let of_address = taken.get(&address).copied().unwrap_or_default();
        if total >= self.total_max || of_address >= self.of_address_max {
            return None;
        }
        taken.insert(address, of_address + 1);
        Some(Place {
            places: self.clone(),
            address,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.get_mut(&self.address) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(taken.remove(&self.address)),
        }
    }
}
