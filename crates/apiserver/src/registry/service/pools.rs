//! Which addresses and ports are taken, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use api::ip::Family;
use ipam::{AddressRange, PortRange, TakeError, UnusableRange};
use ipnet::IpNet;

/// Why a requested address cannot be had; the texts are upstream's (VAL-65).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AddressError {
    /// Somebody has it; retrying helps once it was released.
    #[error("provided IP is already allocated")]
    Taken,
    /// It is the network's own or the broadcast address of a range.
    #[error("the provided IP ({address}) is not in the valid range. The range of valid IPs is {net}")]
    OutOfRange { address: IpAddr, net: IpNet },
    /// No range contains it (FAM-25).
    #[error("the provided network does not match the current range")]
    NoRange,
}

/// Why a requested port cannot be had; the texts are upstream's (VAL-67).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PortError {
    /// Somebody has it; retrying helps once it was released.
    #[error("provided port is already allocated")]
    Taken,
    /// It lies outside of the range.
    #[error("provided port is not in the valid range. The range of valid ports is {first}-{last}")]
    OutOfRange { first: u16, last: u16 },
}

/// How often something was asked for since the start, dry runs aside (FAM-28, NP-12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// And was had.
    pub allocations: u64,
    /// And was not.
    pub errors: u64,
}

impl Taken {
    fn count<T, E>(&mut self, taken: &Result<T, E>) {
        match taken {
            Ok(_) => self.allocations += 1,
            Err(_) => self.errors += 1,
        }
    }
}

/// Upper ends of the buckets of [`Durations`], in microseconds.
pub const DURATION_BOUNDS_US: [u64; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];

/// How long allocations took (FAM-28).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Allocations per bucket; the last bucket is beyond all of [`DURATION_BOUNDS_US`].
    pub counts: [u64; DURATION_BOUNDS_US.len() + 1],
    /// Sum of all durations.
    pub total: Duration,
}

impl Durations {
    fn add(&mut self, took: Duration) {
        self.total += took;
        let bucket = DURATION_BOUNDS_US.partition_point(|us| Duration::from_micros(*us) < took);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
    }
}

/// How much of one range is in use (FAM-28).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeUsage {
    /// The CIDR.
    pub net: IpNet,
    /// Addresses in use.
    pub allocated: u64,
    /// Addresses left.
    pub available: u64,
    /// Any address.
    pub dynamic: Taken,
    /// A certain address.
    pub requested: Taken,
    /// How long allocations took that were successful.
    pub durations: Durations,
}

/// How much of everything is in use (FAM-28, NP-12).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Every range.
    pub ranges: Vec<RangeUsage>,
    /// Node ports in use.
    pub allocated_ports: u64,
    /// Node ports left.
    pub available_ports: u64,
    /// Any port.
    pub dynamic_ports: Taken,
    /// A certain port.
    pub requested_ports: Taken,
}

/// What the audits found since the start (CIDR-20, NP-12).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Faults by their name.
    pub faults: Vec<(&'static str, u64)>,
    /// Passes or repairs that failed.
    pub failures: u64,
}

/// One CIDR, which several ServiceCIDR objects may name.
struct Pool {
    range: AddressRange,
    /// The ServiceCIDRs that name it, and whether each is ready (FAM-23).
    owners: BTreeMap<String, bool>,
    dynamic: Taken,
    requested: Taken,
    durations: Durations,
}

impl Pool {
    fn is_ready(&self) -> bool {
        self.owners.values().any(|is_ready| *is_ready)
    }
}

/// All ranges and the node ports.
pub(super) struct Pools {
    /// In the order in which they came; dynamic addresses come from the first that has one.
    pools: Vec<Pool>,
    /// All addresses that are taken, in a range or not: ranges may overlap, come and go.
    taken: BTreeSet<IpAddr>,
    ports: PortRange,
    dynamic_ports: Taken,
    requested_ports: Taken,
    rng: fastrand::Rng,
}

impl Pools {
    pub(super) fn new(node_ports: RangeInclusive<u16>, rng: fastrand::Rng) -> Self {
        Self {
            pools: Vec::new(),
            taken: BTreeSet::new(),
            ports: PortRange::new(node_ports),
            dynamic_ports: Taken::default(),
            requested_ports: Taken::default(),
            rng,
        }
    }

    /// Names `net` for the ServiceCIDR `owner`; the addresses that are taken already stay so.
    pub(super) fn name_range(
        &mut self,
        owner: &str,
        net: IpNet,
        is_ready: bool,
    ) -> Result<(), UnusableRange> {
        let net = net.trunc();
        if let Some(pool) = self.pools.iter_mut().find(|pool| pool.range.net() == net) {
            pool.owners.insert(owner.to_owned(), is_ready);
            return Ok(());
        }
        let mut range = AddressRange::new(net)?;
        for address in self.taken.range(net.network()..=net.broadcast()) {
            // Network and broadcast addresses that a wider range gave out have no place here.
            match range.take(*address) {
                Ok(()) | Err(TakeError::OutOfRange | TakeError::Taken) => {}
            }
        }
        self.pools.push(Pool {
            range,
            owners: BTreeMap::from([(owner.to_owned(), is_ready)]),
            dynamic: Taken::default(),
            requested: Taken::default(),
            durations: Durations::default(),
        });
        Ok(())
    }

    /// Forgets the ranges that `owner` names and nobody else does, except those in `kept`.
    pub(super) fn unname_ranges(&mut self, owner: &str, kept: &[IpNet]) {
        for pool in self
            .pools
            .iter_mut()
            .filter(|pool| !kept.contains(&pool.range.net()))
        {
            pool.owners.remove(owner);
        }
        self.pools.retain(|pool| !pool.owners.is_empty());
    }

    /// Takes `address` whether or not a range contains it: it was found taken in the store. False if it was
    /// known to be taken.
    pub(super) fn mark_taken(&mut self, address: IpAddr) -> bool {
        for pool in &mut self.pools {
            match pool.range.take(address) {
                Ok(()) | Err(TakeError::OutOfRange | TakeError::Taken) => {}
            }
        }
        self.taken.insert(address)
    }

    /// All addresses that are taken.
    pub(super) fn taken(&self) -> impl Iterator<Item = IpAddr> {
        self.taken.iter().copied()
    }

    /// Takes a requested address from any ready range that contains it (FAM-22, FAM-24).
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

    /// Whether a requested address could be taken.
    pub(super) fn check_address(&self, address: IpAddr) -> Result<(), AddressError> {
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
        if self.taken.contains(&address) {
            Err(AddressError::Taken)
        } else {
            Ok(())
        }
    }

    /// Takes a free address of a family. `None` if all ready ranges are full.
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

    /// An address was taken, which took so long.
    pub(super) fn count_duration(&mut self, address: IpAddr, took: Duration) {
        let mut pools = self.pools.iter_mut();
        if let Some(pool) = pools.find(|pool| pool.is_ready() && pool.range.contains(address)) {
            pool.durations.add(took);
        }
    }

    /// What a dry run shows in the place of a free address (API-13).
    pub(super) fn base_address(&self, family: Family) -> Option<IpAddr> {
        self.pools
            .iter()
            .map(|pool| pool.range.base())
            .find(|base| Family::of(*base) == family)
    }

    pub(super) fn release_address(&mut self, address: IpAddr) {
        self.taken.remove(&address);
        for pool in &mut self.pools {
            pool.range.release(address);
        }
    }

    /// Takes a port that was found taken in the store, or requested.
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

    pub(super) fn take_next_port(&mut self) -> Option<u16> {
        let Self { ports, rng, .. } = self;
        ports.take_next(&mut |below| rng.u64(0..below))
    }

    /// Counts what came of asking for a certain port.
    pub(super) fn count_requested_port(&mut self, taken: &Result<u16, PortError>) {
        self.requested_ports.count(taken);
    }

    /// Counts what came of asking for any port.
    pub(super) fn count_next_port(&mut self, taken: Option<u16>) {
        self.dynamic_ports.count(&taken.ok_or(()));
    }

    pub(super) fn release_port(&mut self, port: u16) {
        self.ports.release(port);
    }

    pub(super) fn port_range(&self) -> RangeInclusive<u16> {
        self.ports.ports()
    }

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
