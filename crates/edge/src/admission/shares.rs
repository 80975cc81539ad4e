//! Shares of the process's connections: of each Service, of the Services of a namespace, and of each client of a Service.
//! Many connections to one Service or namespace leave connections for others, and one client leaves connections for the
//! other clients of a Service.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use counting::client_network;

/// Sets of the table of clients; the hash of a client selects one.
const SETS: usize = 16_384;
/// Clients of a set. Further clients are not counted: a limit for one client has no effect against so many clients.
const WAYS: usize = 4;
/// Bits of a slot that count connections. The others identify the client.
const COUNT_BITS: u32 = 24;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
/// Maximum number of attempts to change slots that other threads change at the same time. After that, the client is not
/// counted.
const ATTEMPTS_MAX: usize = 16;

/// Shares of the process's connections, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Largest share of one Service, from 1 to 100. If several Services together need more, they get equal parts, and
    /// an additional part stays free. This is the dynamic threshold by which switches share buffers (Choudhury and
    /// Hahne, 1998).
    pub service_percent: u8,
    /// Largest share of one client of a Service, from 1 to 100, unless the Service has a limit of its own.
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
    /// Returns true if a Service with `open_of_service` connections may open one more, while the process has `open`
    /// of `open_max`.
    pub(crate) fn has_room(&self, open_of_service: usize, open: usize, open_max: usize) -> bool {
        let percent = u128::from(self.service_percent.clamp(1, 100));
        let free = open_max.saturating_sub(open) as u128;
        (open_of_service as u128) * (100 - percent) < free * percent
    }

    /// Returns true if the Services of a namespace with `open_of_namespace` connections together may open one more. They
    /// may have twice as many as one Service. With 50 percent, they have two thirds of all, as two Services have.
    /// Otherwise, the Services of one tenant could leave no connections to others.
    pub(crate) fn has_room_in_namespace(
        &self,
        open_of_namespace: usize,
        open: usize,
        open_max: usize,
    ) -> bool {
        self.has_room(open_of_namespace / 2, open, open_max)
    }

    /// Returns the limit of connections of one client of a Service.
    pub(crate) fn client_max(&self, open_max: usize) -> u32 {
        let percent = u128::from(self.client_percent.clamp(1, 100));
        let share = (open_max as u128) * percent / 100;
        u32::try_from(share).unwrap_or(u32::MAX).max(1)
    }
}

/// Connections of each client of each Service, counted without a lock: slots change by compare-and-swap. Two threads
/// that add a client at the same moment can give it two slots. The client can then exceed its limit by a factor of two.
#[derive(Debug)]
pub(crate) struct ClientConnections {
    slots: Box<[AtomicU64]>,
    /// Hash with a random seed, so that clients cannot choose addresses of one set.
    hasher: RandomState,
}

/// Counted connection of a client. It has to be released by [`ClientConnections::release`].
#[derive(Debug)]
pub(crate) struct ClientSlot(usize);

/// The client has reached its limit of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientFull;

impl Default for ClientConnections {
    fn default() -> Self {
        Self {
            slots: (0..SETS * WAYS).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl ClientConnections {
    /// Counts one more connection of a client to the Service with this number. Returns `None` if the table has no
    /// room for the client.
    ///
    /// # Errors
    /// [`ClientFull`] if the client has `max` connections already.
    pub(crate) fn acquire(
        &self,
        service: u64,
        client: IpAddr,
        max: u32,
    ) -> Result<Option<ClientSlot>, ClientFull> {
        let hash = self.hasher.hash_one((service, client_network(client)));
        let first = (hash as usize % SETS) * WAYS;
        // An empty slot is 0, so the tag of a client is never 0.
        let tag = (hash & !COUNT_MASK).max(1 << COUNT_BITS);
        let max = u64::from(max).min(COUNT_MASK - 1);
        let set = self.slots.get(first..first + WAYS).unwrap_or_default();
        for _ in 0..ATTEMPTS_MAX {
            let values = || set.iter().map(|slot| slot.load(Ordering::Relaxed));
            let own = values().position(|value| value & !COUNT_MASK == tag);
            let (way, before) = match own.or_else(|| values().position(|value| value == 0)) {
                None => return Ok(None),
                Some(way) => (way, set.get(way).map_or(0, |slot| slot.load(Ordering::Relaxed))),
            };
            let after = match before {
                0 => tag | 1,
                value if value & !COUNT_MASK != tag => continue,
                value if value & COUNT_MASK >= max => return Err(ClientFull),
                value => value + 1,
            };
            let swapped = set.get(way).is_some_and(|slot| {
                slot.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            });
            if swapped {
                return Ok(Some(ClientSlot(first + way)));
            }
        }
        Ok(None)
    }

    /// Ends a counted connection. The last one of a client frees its slot.
    pub(crate) fn release(&self, slot: &ClientSlot) {
        let Some(slot) = self.slots.get(slot.0) else {
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

#[cfg(test)]
mod tests;
