//! Allocation of Pod addresses from the node's Pod ranges. Pure.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

#[cfg(test)]
mod tests;

/// Index of the gateway in each range: the address of the node towards its Pods.
const GATEWAY: u32 = 1;
/// Indices that are allocated at most, however large the ranges are.
const INDICES_MAX: u32 = 1 << 16;

/// Error of an allocation or of the ranges.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// All addresses are in use. Pods that end release theirs.
    #[error("no address is left in the node's Pod ranges {}", ranges.join(", "))]
    Exhausted {
        /// Pod ranges of the node.
        ranges: Vec<String>,
    },
    /// The ranges are invalid. Another Node object or flag helps.
    #[error("expected at most one Pod range of each family, with addresses for a gateway and a Pod, found {}", ranges.join(", "))]
    Ranges {
        /// Pod ranges of the node.
        ranges: Vec<String>,
    },
}

/// Addresses of one node's Pods. A Pod has the same index in the ranges of both families.
#[derive(Debug)]
pub struct AddressPool {
    ranges: Vec<IpNet>,
    /// First index beyond the ranges.
    end: u32,
    used: BTreeSet<u32>,
    /// Index at which the search continues, so that a released address is reused as late as possible.
    next: u32,
}

impl AddressPool {
    /// Returns a pool without allocations.
    ///
    /// # Errors
    /// [`AddressError::Ranges`] unless there is one range for each family at most, with room for a gateway and a Pod.
    pub fn new(ranges: Vec<IpNet>) -> Result<Self, AddressError> {
        let families: BTreeSet<bool> = ranges.iter().map(|range| range.addr().is_ipv6()).collect();
        let end = ranges.iter().map(index_end).min().unwrap_or_default();
        if ranges.is_empty() || families.len() != ranges.len() || end <= GATEWAY + 1 {
            return Err(AddressError::Ranges {
                ranges: range_texts(&ranges),
            });
        }
        Ok(Self {
            ranges,
            end,
            used: BTreeSet::new(),
            next: GATEWAY + 1,
        })
    }

    /// Returns the addresses of the node towards its Pods, in the order of the ranges.
    pub fn gateways(&self) -> Vec<IpAddr> {
        self.at(GATEWAY)
    }

    /// Allocates addresses for one Pod, in the order of the ranges.
    ///
    /// # Errors
    /// [`AddressError::Exhausted`] if all are in use.
    pub fn allocate(&mut self) -> Result<Vec<IpAddr>, AddressError> {
        let first = GATEWAY + 1;
        let free = (self.next..self.end)
            .chain(first..self.next)
            .find(|index| !self.used.contains(index));
        let Some(index) = free else {
            return Err(AddressError::Exhausted {
                ranges: range_texts(&self.ranges),
            });
        };
        self.used.insert(index);
        self.next = if index + 1 < self.end { index + 1 } else { first };
        Ok(self.at(index))
    }

    /// Reserves the addresses of an existing Pod. Returns false if they are outside of the ranges or in use.
    pub fn reserve(&mut self, addresses: &[IpAddr]) -> bool {
        match self.index_of(addresses) {
            Some(index) => self.used.insert(index),
            None => false,
        }
    }

    /// Releases the addresses of a Pod.
    pub fn release(&mut self, addresses: &[IpAddr]) {
        if let Some(index) = self.index_of(addresses) {
            self.used.remove(&index);
        }
    }

    fn index_of(&self, addresses: &[IpAddr]) -> Option<u32> {
        let (first, range) = (addresses.first()?, self.ranges.first()?);
        let index = offset_of(range, *first)?;
        (index > GATEWAY && index < self.end && self.at(index) == addresses).then_some(index)
    }

    fn at(&self, index: u32) -> Vec<IpAddr> {
        self.ranges
            .iter()
            .map(|range| nth_address(range, index))
            .collect()
    }
}

/// Returns the first index beyond a range. The last address of an IPv4 range is its broadcast address.
fn index_end(range: &IpNet) -> u32 {
    let (bits, reserved) = match range {
        IpNet::V4(net) => (32 - net.prefix_len(), 1),
        IpNet::V6(net) => (128 - net.prefix_len(), 0),
    };
    let size = 1u32.checked_shl(bits.into()).unwrap_or(u32::MAX);
    (size - reserved).min(INDICES_MAX)
}

fn nth_address(range: &IpNet, index: u32) -> IpAddr {
    match range.network() {
        IpAddr::V4(first) => Ipv4Addr::from(u32::from(first).wrapping_add(index)).into(),
        IpAddr::V6(first) => Ipv6Addr::from(u128::from(first).wrapping_add(index.into())).into(),
    }
}

fn offset_of(range: &IpNet, address: IpAddr) -> Option<u32> {
    match (range.network(), address) {
        (IpAddr::V4(first), IpAddr::V4(address)) => u32::from(address).checked_sub(first.into()),
        (IpAddr::V6(first), IpAddr::V6(address)) => {
            u32::try_from(u128::from(address).checked_sub(first.into())?).ok()
        }
        _ => None,
    }
}

fn range_texts(ranges: &[IpNet]) -> Vec<String> {
    ranges.iter().map(ToString::to_string).collect()
}
