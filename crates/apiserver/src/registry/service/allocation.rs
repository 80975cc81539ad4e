//! What one write of a Service takes and gives up.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use api::ip::Family;
use store::{Expectation, Index, Key, Write};

use super::pools::{AddressError, Pools, PortError};
use super::records::{self, Holder};

/// The reservations of one write, to be committed together with the Service. Dropped before
/// [`Allocation::committed`] is called, it takes everything back (FAM-13).
#[must_use = "dropping an allocation takes the reservations back"]
pub struct Allocation {
    /// What must hold of the store: nobody else has what is taken here.
    pub expectations: Vec<(Key, Expectation)>,
    /// Records of what is taken and what is given up.
    pub writes: Vec<Write>,
    pools: Arc<Mutex<Pools>>,
    is_dry_run: bool,
    taken: Held,
    given_up: Held,
}

#[derive(Default)]
struct Held {
    addresses: Vec<IpAddr>,
    ports: Vec<u16>,
}

impl Allocation {
    pub(super) fn new(pools: Arc<Mutex<Pools>>, is_dry_run: bool) -> Self {
        Self {
            expectations: Vec::new(),
            writes: Vec::new(),
            pools,
            is_dry_run,
            taken: Held::default(),
            given_up: Held::default(),
        }
    }

    /// The transaction was carried out: what was taken stays so, what was given up is free from now on.
    pub fn committed(mut self) {
        if self.is_dry_run {
            return;
        }
        self.taken = Held::default();
        let given_up = std::mem::take(&mut self.given_up);
        self.free(given_up);
    }

    /// The transaction failed because `key` was not as expected. If that is an address or a port of this
    /// allocation, another server has it: it stays taken here, and true is returned. The write may then be
    /// tried again from the object as the client sent it.
    pub fn conflicted(mut self, key: &str) -> bool {
        let is_ours = self.expectations.iter().any(|(expected, _)| **expected == *key);
        self.taken
            .addresses
            .retain(|address| *records::address_key(*address) != *key);
        self.taken.ports.retain(|port| *records::port_key(*port) != *key);
        is_ours
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.is_dry_run
    }

    pub(super) fn take_address(&mut self, address: IpAddr) -> Result<(), AddressError> {
        if self.is_dry_run {
            return self.pools().check_address(address);
        }
        let begin = Instant::now();
        {
            let mut pools = self.pools();
            pools.take_address(address)?;
            pools.count_duration(address, begin.elapsed());
        }
        self.taken.addresses.push(address);
        Ok(())
    }

    pub(super) fn take_next_address(&mut self, family: Family) -> Option<IpAddr> {
        if self.is_dry_run {
            return self.pools().base_address(family);
        }
        let begin = Instant::now();
        let address = {
            let mut pools = self.pools();
            let address = pools.take_next_address(family)?;
            pools.count_duration(address, begin.elapsed());
            address
        };
        self.taken.addresses.push(address);
        Some(address)
    }

    /// A dry run reserves ports too, until it is dropped: that shows all the errors of a real one.
    pub(super) fn take_port(&mut self, port: i64) -> Result<(), PortError> {
        let taken = {
            let mut pools = self.pools();
            let taken = pools.take_port(port);
            if !self.is_dry_run {
                pools.count_requested_port(&taken);
            }
            taken
        };
        self.taken.ports.push(taken?);
        Ok(())
    }

    pub(super) fn take_next_port(&mut self) -> Option<u16> {
        let port = {
            let mut pools = self.pools();
            let port = pools.take_next_port();
            if !self.is_dry_run {
                pools.count_next_port(port);
            }
            port?
        };
        self.taken.ports.push(port);
        Some(port)
    }

    pub(super) fn give_up_address(&mut self, address: IpAddr) {
        self.given_up.addresses.push(address);
    }

    pub(super) fn give_up_port(&mut self, port: i64) {
        if let Ok(port) = u16::try_from(port)
            && !self.given_up.ports.contains(&port)
        {
            self.given_up.ports.push(port);
        }
    }

    /// Writes down what was taken and given up, once all is decided.
    pub(super) fn record(&mut self, index: &Index, holder: Holder<'_>, now: jiff::Timestamp) {
        if self.is_dry_run {
            return;
        }
        for address in &self.taken.addresses {
            self.expectations
                .push((records::address_key(*address), Expectation::Absent));
            self.writes.push(records::put_address(*address, holder, now));
        }
        for port in &self.taken.ports {
            self.expectations
                .push((records::port_key(*port), Expectation::Absent));
            self.writes.push(records::put_port(*port, holder));
        }
        for address in &self.given_up.addresses {
            self.writes
                .extend(records::delete_object(index, records::address_key(*address)));
        }
        self.writes
            .extend(self.given_up.ports.iter().map(|port| records::delete_port(*port)));
    }

    fn pools(&self) -> MutexGuard<'_, Pools> {
        lock(&self.pools)
    }

    fn free(&self, held: Held) {
        let mut pools = self.pools();
        for address in held.addresses {
            pools.release_address(address);
        }
        for port in held.ports {
            pools.release_port(port);
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        if !taken.addresses.is_empty() || !taken.ports.is_empty() {
            self.free(taken);
        }
    }
}

/// Locks the pools, or what follows the store for them. Every operation leaves them whole, so a panic elsewhere
/// under the lock does not make them unusable.
pub(super) fn lock<T>(guarded: &Mutex<T>) -> MutexGuard<'_, T> {
    guarded.lock().unwrap_or_else(PoisonError::into_inner)
}
