//! The addresses and ports that one write of a Service reserves and releases.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use api::ip::Family;
use store::{Expectation, Index, Key, Write};

use super::pools::{AddressError, Pools, PortError};
use super::records::{self, Holder};

/// The reservations of one write, which are committed together with the Service. Unless [`Allocation::commit`] is
/// called, dropping it releases its reservations (FAM-13).
#[must_use = "dropping an allocation releases its reservations"]
pub struct Allocation {
    /// Expectations of the transaction: no other holder has the reserved addresses and ports.
    pub expectations: Vec<(Key, Expectation)>,
    /// Records of the reserved and released addresses and ports.
    pub writes: Vec<Write>,
    pools: Arc<Mutex<Pools>>,
    is_dry_run: bool,
    reserved: AddressesAndPorts,
    released: AddressesAndPorts,
    /// Ports that a dry run shows.
    simulated: Vec<i64>,
}

/// Addresses and ports of a Service.
#[derive(Default)]
struct AddressesAndPorts {
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
            reserved: AddressesAndPorts::default(),
            released: AddressesAndPorts::default(),
            simulated: Vec::new(),
        }
    }

    /// Makes the reservations permanent and frees the released addresses and ports. Called after the transaction was
    /// committed.
    pub fn commit(mut self) {
        if self.is_dry_run {
            return;
        }
        self.reserved = AddressesAndPorts::default();
        let released = std::mem::take(&mut self.released);
        self.free(released);
    }

    /// Handles a transaction that failed on the expectation of `key`. Returns true if `key` is an address or port
    /// of this allocation: another server holds it, so it stays reserved here. The write may then be retried with
    /// the object as the client sent it.
    pub fn resolve_conflict(mut self, key: &str) -> bool {
        let is_own = self.expectations.iter().any(|(expected, _)| **expected == *key);
        self.reserved
            .addresses
            .retain(|address| *records::address_key(*address) != *key);
        self.reserved
            .ports
            .retain(|port| *records::port_key(*port) != *key);
        is_own
    }

    /// Returns true if nothing is stored.
    pub(super) fn is_dry_run(&self) -> bool {
        self.is_dry_run
    }

    /// Reserves a requested address. As upstream, a dry run checks its range only, not its holder.
    pub(super) fn take_address(&mut self, address: IpAddr) -> Result<(), AddressError> {
        if self.is_dry_run {
            return self.pools().check_range(address);
        }
        let begin = Instant::now();
        {
            let mut pools = self.pools();
            pools.take_address(address)?;
            pools.count_duration(address, begin.elapsed());
        }
        self.reserved.addresses.push(address);
        Ok(())
    }

    /// Reserves a free address of a family; `None` if no address is free. A dry run returns an address without a
    /// reservation.
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
        self.reserved.addresses.push(address);
        Some(address)
    }

    /// Reserves a requested port. As upstream, a dry run checks that no Service has it, not its range.
    pub(super) fn take_port(&mut self, port: i64) -> Result<(), PortError> {
        if self.is_dry_run {
            if self.simulated.contains(&port) || self.pools().has_port(port) {
                return Err(PortError::Taken);
            }
            self.simulated.push(port);
            return Ok(());
        }
        let taken = {
            let mut pools = self.pools();
            let taken = pools.take_port(port);
            pools.count_requested_port(&taken);
            taken
        };
        self.reserved.ports.push(taken?);
        Ok(())
    }

    /// Reserves a free port; `None` if no port is free. As upstream, a dry run shows the successor of its highest port,
    /// and begins above the range.
    pub(super) fn take_next_port(&mut self) -> Option<i64> {
        if self.is_dry_run {
            let highest = self.simulated.iter().max().copied();
            let highest = highest.unwrap_or_else(|| i64::from(*self.pools().port_range().end()) + 1);
            let port = highest.saturating_add(1);
            self.simulated.push(port);
            return Some(port);
        }
        let port = {
            let mut pools = self.pools();
            let port = pools.take_next_port();
            pools.count_next_port(port);
            port?
        };
        self.reserved.ports.push(port);
        Some(i64::from(port))
    }

    /// Marks an address for release.
    pub(super) fn release_address(&mut self, address: IpAddr) {
        self.released.addresses.push(address);
    }

    /// Marks a port for release.
    pub(super) fn release_port(&mut self, port: i64) {
        if let Ok(port) = u16::try_from(port)
            && !self.released.ports.contains(&port)
        {
            self.released.ports.push(port);
        }
    }

    /// Adds the records and expectations of all reservations and releases. Called once, after all decisions.
    pub(super) fn record(&mut self, index: &Index, holder: Holder<'_>, now: jiff::Timestamp) {
        if self.is_dry_run {
            return;
        }
        for address in &self.reserved.addresses {
            self.expectations
                .push((records::address_key(*address), Expectation::Absent));
            self.writes.push(records::put_address(*address, holder, now));
        }
        for port in &self.reserved.ports {
            self.expectations
                .push((records::port_key(*port), Expectation::Absent));
            self.writes.push(records::put_port(*port, holder));
        }
        for address in &self.released.addresses {
            self.writes
                .extend(records::delete_object(index, records::address_key(*address)));
        }
        self.writes
            .extend(self.released.ports.iter().map(|port| records::delete_port(*port)));
    }

    fn pools(&self) -> MutexGuard<'_, Pools> {
        lock(&self.pools)
    }

    fn free(&self, items: AddressesAndPorts) {
        let mut pools = self.pools();
        for address in items.addresses {
            pools.release_address(address);
        }
        for port in items.ports {
            pools.release_port(port);
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let reserved = std::mem::take(&mut self.reserved);
        if !reserved.addresses.is_empty() || !reserved.ports.is_empty() {
            self.free(reserved);
        }
    }
}

/// Locks a mutex and ignores poisoning. Every operation under these locks leaves consistent data, so the data is valid
/// after a panic of another thread.
pub(super) fn lock<T>(guarded: &Mutex<T>) -> MutexGuard<'_, T> {
    guarded.lock().unwrap_or_else(PoisonError::into_inner)
}
