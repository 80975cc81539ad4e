//! Pools and their taken addresses.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::Family;
use crate::offsets::OffsetSet;

/// Ranges and policy of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Ranges of one family each, without overlaps; other ranges are ignored.
    pub blocks: Vec<RangeInclusive<IpAddr>>,
    /// Assigns addresses to Services that request neither this pool nor an address of it.
    pub is_automatic: bool,
    /// Priority: higher first, then by name.
    pub priority: i64,
    /// Skips IPv4 addresses that end in .0 or .255.
    pub avoids_edges: bool,
}

/// A range of a pool and its taken offsets.
#[derive(Clone, Debug)]
struct Block {
    range: RangeInclusive<IpAddr>,
    /// Number of addresses that a search considers: at most 2^64 - 1.
    size: u64,
    taken: OffsetSet,
}

/// A pool with its blocks.
#[derive(Clone, Debug)]
struct Entry {
    pool: Pool,
    blocks: Vec<Block>,
}

/// All pools.
#[derive(Clone, Debug, Default)]
pub(super) struct PoolSet {
    entries: BTreeMap<Arc<str>, Entry>,
    /// Names of the pools, best first.
    order: Vec<Arc<str>>,
}

impl PoolSet {
    pub(super) fn set(&mut self, name: &str, pool: Pool, held: impl Iterator<Item = IpAddr>) {
        let mut blocks: Vec<Block> = pool.blocks.iter().filter_map(Block::new).collect();
        for address in held {
            for block in &mut blocks {
                block.take(address);
            }
        }
        self.entries.insert(name.into(), Entry { pool, blocks });
        self.sort();
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.entries.remove(name);
        self.sort();
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.entries.keys()
    }

    pub(super) fn by_priority(&self) -> impl Iterator<Item = &Arc<str>> {
        self.order.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    pub(super) fn is_automatic(&self, name: &str) -> bool {
        self.entries
            .get(name)
            .is_some_and(|entry| entry.pool.is_automatic)
    }

    /// Returns true if the pool assigns this address.
    pub(super) fn contains(&self, name: &str, address: IpAddr) -> bool {
        self.entries.get(name).is_some_and(|entry| {
            let has_it = entry
                .blocks
                .iter()
                .any(|block| block.offset_of(address).is_some());
            has_it && !(entry.pool.avoids_edges && is_edge(address))
        })
    }

    /// Returns the number of all addresses of a pool in a family, and the number of taken ones; `None` if it has no
    /// range of the family.
    pub(super) fn usage(&self, name: &str, family: Family) -> Option<(u64, u64)> {
        let entry = self.entries.get(name)?;
        let family_blocks = entry
            .blocks
            .iter()
            .filter(|block| Family::of(*block.range.start()) == family);
        let (mut total, mut taken, mut is_there) = (0u64, 0u64, false);
        for block in family_blocks {
            is_there = true;
            let kept_back = if entry.pool.avoids_edges { block.edges() } else { 0 };
            total = total.saturating_add(block.size - kept_back);
            taken = taken.saturating_add(block.taken.len());
        }
        is_there.then_some((total, taken))
    }

    /// Returns the lowest free address of a family.
    pub(super) fn first_free(&self, name: &str, family: Family) -> Option<IpAddr> {
        let entry = self.entries.get(name)?;
        entry
            .blocks
            .iter()
            .filter(|block| Family::of(*block.range.start()) == family)
            .find_map(|block| block.first_free(entry.pool.avoids_edges))
    }

    pub(super) fn take(&mut self, address: IpAddr) {
        for block in self.blocks_mut() {
            block.take(address);
        }
    }

    pub(super) fn free(&mut self, address: IpAddr) {
        for block in self.blocks_mut() {
            if let Some(offset) = block.offset_of(address) {
                block.taken.remove(offset);
            }
        }
    }

    fn blocks_mut(&mut self) -> impl Iterator<Item = &mut Block> {
        self.entries.values_mut().flat_map(|entry| &mut entry.blocks)
    }

    fn sort(&mut self) {
        self.order = self.entries.keys().cloned().collect();
        self.order.sort_by_key(|name| {
            let priority = self.entries.get(name).map_or(0, |entry| entry.pool.priority);
            std::cmp::Reverse(priority)
        });
    }
}

impl Block {
    /// Returns `None` for an empty range or one of two families.
    fn new(range: &RangeInclusive<IpAddr>) -> Option<Self> {
        let distance = distance(*range.start(), *range.end())?;
        let size = u64::try_from(distance).unwrap_or(u64::MAX).saturating_add(1);
        Some(Self {
            range: range.clone(),
            size,
            taken: OffsetSet::default(),
        })
    }

    fn take(&mut self, address: IpAddr) {
        if let Some(offset) = self.offset_of(address) {
            self.taken.insert(offset);
        }
    }

    fn offset_of(&self, address: IpAddr) -> Option<u64> {
        let offset = u64::try_from(distance(*self.range.start(), address)?).ok()?;
        (offset < self.size).then_some(offset)
    }

    fn address_of(&self, offset: u64) -> IpAddr {
        match self.range.start() {
            // The size of an IPv4 range fits into 32 bits, so the sum stays inside of the range.
            IpAddr::V4(first) => IpAddr::V4(Ipv4Addr::from_bits(first.to_bits().wrapping_add(offset as u32))),
            IpAddr::V6(first) => IpAddr::V6(Ipv6Addr::from_bits(first.to_bits() + u128::from(offset))),
        }
    }

    fn first_free(&self, avoids_edges: bool) -> Option<IpAddr> {
        let mut from = 0;
        // At most two edge addresses follow each other: .255 and .0.
        while let Some(offset) = self.taken.first_free(from..self.size) {
            let address = self.address_of(offset);
            if !(avoids_edges && is_edge(address)) {
                return Some(address);
            }
            from = offset + 1;
        }
        None
    }

    /// Returns the number of IPv4 addresses that end in .0 or .255.
    fn edges(&self) -> u64 {
        let (IpAddr::V4(first), IpAddr::V4(last)) = (self.range.start(), self.range.end()) else {
            return 0;
        };
        let (first, last) = (u64::from(first.to_bits()), u64::from(last.to_bits()));
        // Number of integers below `end` with remainder `r` modulo 256.
        let below = |end: u64, rest: u64| (end + 255 - rest) / 256;
        [0, 255]
            .iter()
            .map(|rest| below(last + 1, *rest) - below(first, *rest))
            .sum()
    }
}

fn is_edge(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if matches!(address.octets()[3], 0 | 255))
}

/// Returns the distance from `from` to `to`; `None` if `to` is below or of another family.
fn distance(from: IpAddr, to: IpAddr) -> Option<u128> {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => to.to_bits().checked_sub(from.to_bits()).map(u128::from),
        (IpAddr::V6(from), IpAddr::V6(to)) => to.to_bits().checked_sub(from.to_bits()),
        _ => None,
    }
}
