//! Shares of the connections that a process can bear: of each Service, and of each client of a Service. So a flood at one
//! Service leaves room for the others, and one client leaves room for the other clients of a Service.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

/// Sets of the table of clients; a client's hash chooses one.
const SETS: usize = 16_384;
/// Clients that a set holds. Clients beyond that are not counted: no bound on one client helps against so many.
const WAYS: usize = 4;
/// Bits of a slot that count connections; the others identify the client.
const COUNT_BITS: u32 = 24;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
/// Tries to change slots that other threads change at the same time. A client that loses them all is not counted.
const TRIES_MAX: usize = 16;
/// Prefix length by which clients of IPv6 are counted: a host has a whole network of this size.
const IPV6_PREFIX_BITS: u32 = 64;

/// How the connections of a process are shared, in percent of those that it can bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// What one Service may have at most, from 1 to 100. Services that ask for more together get equal parts, and leave
    /// another part free (a dynamic threshold, as switches share buffers: Choudhury and Hahne, 1998).
    pub service_percent: u8,
    /// What one client of a Service may have, from 1 to 100, unless the Service has a bound of its own.
    pub client_percent: u8,
}

impl Default for Shares {
    fn default() -> Self {
        Self {
            service_percent: 50,
            client_percent: 10,
        }
    }
}

impl Shares {
    /// Whether a Service with `of_service` connections may have one more, while the process has `of_all` of `open_max`.
    pub(crate) fn has_room(&self, of_service: usize, of_all: usize, open_max: usize) -> bool {
        let percent = u128::from(self.service_percent.clamp(1, 100));
        let free = open_max.saturating_sub(of_all) as u128;
        (of_service as u128) * (100 - percent) < free * percent
    }

    /// The connections that one client of a Service may have.
    pub(crate) fn client_max(&self, open_max: usize) -> u32 {
        let percent = u128::from(self.client_percent.clamp(1, 100));
        let part = (open_max as u128) * percent / 100;
        u32::try_from(part).unwrap_or(u32::MAX).max(1)
    }
}

/// Connections of each client of each Service, without a lock: slots are changed by compare-and-swap. Two threads that take
/// in a new client at the same moment may give it two slots, so a bound may be exceeded by a factor of two then.
#[derive(Debug)]
pub(crate) struct Clients {
    slots: Box<[AtomicU64]>,
    /// Seeded at random, so that nobody can choose addresses that fall into one set.
    hasher: RandomState,
}

/// A connection that is counted for its client. It must be given back by [`Clients::leave`].
#[derive(Debug)]
pub(crate) struct Counted(usize);

/// The client has as many connections as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientFull;

impl Default for Clients {
    fn default() -> Self {
        Self {
            slots: (0..SETS * WAYS).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl Clients {
    /// Counts one more connection of a client to the Service of this number, if that stays within `max`. `None` if there is
    /// no room to count it.
    ///
    /// # Errors
    /// The client has `max` connections already.
    pub(crate) fn enter(
        &self,
        service: u64,
        client: IpAddr,
        max: u32,
    ) -> Result<Option<Counted>, ClientFull> {
        let hash = self.hasher.hash_one((service, network(client)));
        let first = (hash as usize % SETS) * WAYS;
        // A slot without a client is 0, so no client may be.
        let tag = (hash & !COUNT_MASK).max(1 << COUNT_BITS);
        let max = u64::from(max).min(COUNT_MASK - 1);
        let set = self.slots.get(first..first + WAYS).unwrap_or_default();
        for _ in 0..TRIES_MAX {
            let values = || set.iter().map(|slot| slot.load(Ordering::Relaxed));
            let own = values().position(|value| value & !COUNT_MASK == tag);
            let (way, before) = match own.or_else(|| values().position(|value| value == 0)) {
                None => return Ok(None),
                Some(way) => (way, set.get(way).map_or(0, |slot| slot.load(Ordering::Relaxed))),
            };
            let after = match before {
                0 => tag | 1,
                known if known & !COUNT_MASK != tag => continue,
                known if known & COUNT_MASK >= max => return Err(ClientFull),
                known => known + 1,
            };
            let swapped = set.get(way).is_some_and(|slot| {
                slot.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            });
            if swapped {
                return Ok(Some(Counted(first + way)));
            }
        }
        Ok(None)
    }

    /// A counted connection has ended. The last one of a client frees its slot.
    pub(crate) fn leave(&self, counted: &Counted) {
        let Some(slot) = self.slots.get(counted.0) else {
            return;
        };
        let less = |value: u64| match value & COUNT_MASK {
            0 | 1 => 0,
            _ => value - 1,
        };
        let changed = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |value| Some(less(value)));
        debug_assert!(changed.is_ok_and(|before| before & COUNT_MASK > 0));
    }
}

/// What a client is counted by.
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let host_bits = 128 - IPV6_PREFIX_BITS;
            Ipv6Addr::from_bits(address.to_bits() >> host_bits << host_bits).into()
        }
    }
}

#[cfg(test)]
mod tests;
