//! In-memory state of allocated addresses and ports.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use api::ip::Family;
use ipam::{AddressRange, PortRange, TakeError, UnusableRange};
use ipnet::IpNet;

/// A requested address that is not available; the texts are upstream's (VAL-65).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AddressError {
    /// The address is taken; retrying helps once it is released.
    #[error("provided IP is already allocated")]
    Taken,
    /// The address is the network or broadcast address of a range.
    #[error("the provided IP ({address}) is not in the valid range. The range of valid IPs is {net}")]
    OutOfRange { address: IpAddr, net: IpNet },
    /// No range contains the address (FAM-25).
    #[error("the provided network does not match the current range")]
    NoRange,
}

/// A requested port that is not available; the texts are upstream's (VAL-67).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PortError {
    /// The port is taken; retrying helps once it is released.
    #[error("provided port is already allocated")]
    Taken,
    /// The port is outside of the range.
    #[error("provided port is not in the valid range. The range of valid ports is {first}-{last}")]
    OutOfRange { first: u16, last: u16 },
}

/// Numbers of allocations since the start, without dry runs (FAM-28, NP-12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationCounts {
    /// Successful allocations.
    pub allocations: u64,
    /// Failed allocations.
    pub errors: u64,
}

impl AllocationCounts {
    fn count<T, E>(&mut self, taken: &Result<T, E>) {
        match taken {
            Ok(_) => self.allocations += 1,
            Err(_) => self.errors += 1,
        }
    }
}

/// Upper bounds of the buckets of [`Durations`], in microseconds.
pub const DURATION_BOUNDS_MICROSECONDS: [u64; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];

/// Histogram of allocation durations (FAM-28).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Allocations per bucket; the last bucket has those above all of [`DURATION_BOUNDS_MICROSECONDS`].
    pub counts: [u64; DURATION_BOUNDS_MICROSECONDS.len() + 1],
    /// Sum of all durations.
    pub total: Duration,
}

impl Durations {
    fn add(&mut self, duration: Duration) {
        self.total += duration;
        let bucket =
            DURATION_BOUNDS_MICROSECONDS.partition_point(|bound| Duration::from_micros(*bound) < duration);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
    }
}

/// Usage of one range (FAM-28).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeUsage {
    /// The CIDR of the range.
    pub net: IpNet,
    /// Addresses in use.
    pub allocated: u64,
    /// Addresses left.
    pub available: u64,
    /// Allocations without a requested address.
    pub dynamic: AllocationCounts,
    /// Allocations of a requested address.
    pub requested: AllocationCounts,
    /// Durations of successful allocations.
    pub durations: Durations,
}

/// Usage of all ranges and of the node ports (FAM-28, NP-12).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Usage of each range.
    pub ranges: Vec<RangeUsage>,
    /// Node ports in use.
    pub allocated_ports: u64,
    /// Node ports left.
    pub available_ports: u64,
    /// Allocations without a requested port.
    pub dynamic_ports: AllocationCounts,
    /// Allocations of a requested port.
    pub requested_ports: AllocationCounts,
}

/// Findings of the audits since the start (CIDR-20, NP-12).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairCounts {
    /// Number of findings by the name of the fault.
    pub faults: Vec<(&'static str, u64)>,
    /// Number of failed passes and repairs.
    pub failures: u64,
}

/// One CIDR, which several ServiceCIDRs may contain.
struct Pool {
    range: AddressRange,
    /// The ServiceCIDRs that contain it, and if each is ready (FAM-23).
    owners: BTreeMap<String, bool>,
    dynamic: AllocationCounts,
    requested: AllocationCounts,
    durations: Durations,
}

impl Pool {
    fn is_ready(&self) -> bool {
        self.owners.values().any(|is_ready| *is_ready)
    }
}

/// All ranges and the node ports.
pub(super) struct Pools {
    /// In order of creation; addresses are allocated from the first range that has one.
    pools: Vec<Pool>,
    /// All taken addresses, also those outside of all ranges: ranges may overlap and change.
    taken: BTreeSet<IpAddr>,
    ports: PortRange,
    dynamic_ports: AllocationCounts,
    requested_ports: AllocationCounts,
    rng: fastrand::Rng,
}

impl Pools {
    pub(super) fn new(node_ports: RangeInclusive<u16>, rng: fastrand::Rng) -> Self {
        Self {
            pools: Vec::new(),
            taken: BTreeSet::new(),
            ports: PortRange::new(node_ports),
            dynamic_ports: AllocationCounts::default(),
            requested_ports: AllocationCounts::default(),
            rng,
        }
    }

    /// Adds `net` on behalf of the ServiceCIDR `owner`. Addresses that are taken already stay taken.
    pub(super) fn add_range(&mut self, owner: &str, net: IpNet, is_ready: bool) -> Result<(), UnusableRange> {
        let net = net.trunc();
        if let Some(pool) = self.pools.iter_mut().find(|pool| pool.range.net() == net) {
            pool.owners.insert(owner.to_owned(), is_ready);
            return Ok(());
        }
        let mut range = AddressRange::new(net)?;
        for address in self.taken.range(net.network()..=net.broadcast()) {
            // Addresses of a wider range may be the network or broadcast address of this one.
            match range.take(*address) {
                Ok(()) | Err(TakeError::OutOfRange | TakeError::Taken) => {}
            }
        }
        self.pools.push(Pool {
            range,
            owners: BTreeMap::from([(owner.to_owned(), is_ready)]),
            dynamic: AllocationCounts::default(),
            requested: AllocationCounts::default(),
            durations: Durations::default(),
        });
        Ok(())
    }

    /// Removes the ranges of `owner` that no other ServiceCIDR contains, except those in `kept`.
    pub(super) fn remove_ranges(&mut self, owner: &str, kept: &[IpNet]) {
        for pool in self
            .pools
            .iter_mut()
            .filter(|pool| !kept.contains(&pool.range.net()))
        {
            pool.owners.remove(owner);
        }
        self.pools.retain(|pool| !pool.owners.is_empty());
    }

    /// Takes an address that is recorded in the store, even outside of all ranges. Returns false if it was taken
    /// already.
    pub(super) fn mark_taken(&mut self, address: IpAddr) -> bool {
        for pool in &mut self.pools {
            match pool.range.take(address) {
                Ok(()) | Err(TakeError::OutOfRange | TakeError::Taken) => {}
            }
        }
        self.taken.insert(address)
    }

    /// Returns all taken addresses.
    pub(super) fn taken(&self) -> impl Iterator<Item = IpAddr> {
        self.taken.iter().copied()
    }

    /// Takes a requested address of a ready range (FAM-22, FAM-24).
    pub(super) fn take_address(&mut self, address: IpAddr) -> Result<(), AddressError> {
        let checked = self.check_address(address);
        let containing = self
            .pools
            .iter_mut()
            .find(|pool| pool.is_ready() && pool.range.net().contains(&address));
        if let Some(pool) = containing {
            pool.requested.count(&checked);
        }
        checked?;
        self.mark_taken(address);
        Ok(())
    }

    /// Checks that a requested address is available.
    fn check_address(&self, address: IpAddr) -> Result<(), AddressError> {
        self.check_range(address)?;
        if self.taken.contains(&address) {
            Err(AddressError::Taken)
        } else {
            Ok(())
        }
    }

    /// Checks that a ready range contains a requested address.
    pub(super) fn check_range(&self, address: IpAddr) -> Result<(), AddressError> {
        let containing = || {
            self.pools
                .iter()
                .filter(|pool| pool.is_ready() && pool.range.net().contains(&address))
        };
        let Some(first) = containing().next() else {
            return Err(AddressError::NoRange);
        };
        if !containing().any(|pool| pool.range.contains(address)) {
            return Err(AddressError::OutOfRange {
                address,
                net: first.range.net(),
            });
        }
        Ok(())
    }

    /// Takes a free address of a family; `None` if all ready ranges are exhausted.
    pub(super) fn take_next_address(&mut self, family: Family) -> Option<IpAddr> {
        let Self { pools, rng, .. } = self;
        let address = pools
            .iter_mut()
            .filter(|pool| pool.is_ready() && Family::of(pool.range.base()) == family)
            .find_map(|pool| {
                let address = pool.range.take_next(&mut |below| rng.u64(0..below));
                pool.dynamic.count(&address.ok_or(()));
                address
            })?;
        self.mark_taken(address);
        Some(address)
    }

    /// Records the duration of an allocation.
    pub(super) fn count_duration(&mut self, address: IpAddr, duration: Duration) {
        let mut pools = self.pools.iter_mut();
        if let Some(pool) = pools.find(|pool| pool.is_ready() && pool.range.contains(address)) {
            pool.durations.add(duration);
        }
    }

    /// Returns the address that a dry run shows instead of an allocated one (API-13).
    pub(super) fn base_address(&self, family: Family) -> Option<IpAddr> {
        self.pools
            .iter()
            .map(|pool| pool.range.base())
            .find(|base| Family::of(*base) == family)
    }

    /// Releases an address in all ranges.
    pub(super) fn release_address(&mut self, address: IpAddr) {
        self.taken.remove(&address);
        for pool in &mut self.pools {
            pool.range.release(address);
        }
    }

    /// Returns true if a port is taken.
    pub(super) fn has_port(&self, port: i64) -> bool {
        u16::try_from(port).is_ok_and(|port| self.ports.is_taken(port))
    }

    /// Takes a port that is recorded in the store or requested.
    pub(super) fn take_port(&mut self, port: i64) -> Result<u16, PortError> {
        let ports = self.ports.ports();
        let out_of_range = PortError::OutOfRange {
            first: *ports.start(),
            last: *ports.end(),
        };
        let Ok(number) = u16::try_from(port) else {
            return Err(out_of_range);
        };
        match self.ports.take(number) {
            Ok(()) => Ok(number),
            Err(TakeError::Taken) => Err(PortError::Taken),
            Err(TakeError::OutOfRange) => Err(out_of_range),
        }
    }

    /// Takes a free port; `None` if no port is free.
    pub(super) fn take_next_port(&mut self) -> Option<u16> {
        let Self { ports, rng, .. } = self;
        ports.take_next(&mut |below| rng.u64(0..below))
    }

    /// Counts an allocation of a requested port.
    pub(super) fn count_requested_port(&mut self, taken: &Result<u16, PortError>) {
        self.requested_ports.count(taken);
    }

    /// Counts an allocation without a requested port.
    pub(super) fn count_next_port(&mut self, taken: Option<u16>) {
        self.dynamic_ports.count(&taken.ok_or(()));
    }

    /// Releases a port.
    pub(super) fn release_port(&mut self, port: u16) {
        self.ports.release(port);
    }

    /// Returns the range of node ports.
    pub(super) fn port_range(&self) -> RangeInclusive<u16> {
        self.ports.ports()
    }

    /// Returns the numbers of allocated and free addresses and ports, for metrics.
    pub(super) fn usage(&self) -> Usage {
        Usage {
            ranges: self
                .pools
                .iter()
                .map(|pool| RangeUsage {
                    net: pool.range.net(),
                    allocated: pool.range.taken(),
                    available: pool.range.free(),
                    dynamic: pool.dynamic,
                    requested: pool.requested,
                    durations: pool.durations.clone(),
                })
                .collect(),
            allocated_ports: self.ports.taken(),
            available_ports: self.ports.free(),
            dynamic_ports: self.dynamic_ports,
            requested_ports: self.requested_ports,
        }
    }
}
