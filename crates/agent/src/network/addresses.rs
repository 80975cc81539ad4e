//! Which addresses of the node's Pod ranges are in use. Pure.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

#[cfg(test)]
mod tests;

/// Place of the gateway in each range: the node's own address towards its Pods.
const GATEWAY: u32 = 1;
/// Places that are handed out at most, however large the ranges are.
const PLACES_MAX: u32 = 1 << 16;

/// Why there is no address.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// All are in use; Pods that end make room.
    #[error("no address is left in the node's Pod ranges {}", ranges.join(", "))]
    Exhausted {
        /// The ranges.
        ranges: Vec<String>,
    },
    /// The ranges are not what a node can have. Another Node object or flag helps.
    #[error("Pod ranges {}: one of each family at most, with room for a gateway and a Pod", ranges.join(", "))]
    Ranges {
        /// The ranges.
        ranges: Vec<String>,
    },
}

/// The addresses of one node's Pods: a place is the same in the ranges of both families, so that the addresses
/// of a Pod resemble each other.
#[derive(Debug)]
pub struct AddressPool {
    ranges: Vec<IpNet>,
    /// First place that is not handed out any more.
    end: u32,
    used: BTreeSet<u32>,
    /// Where the search goes on: an address rests as long as possible before its next Pod.
    next: u32,
}

impl AddressPool {
    /// A pool of which nothing is in use.
    pub fn new(ranges: Vec<IpNet>) -> Result<Self, AddressError> {
        let families: BTreeSet<bool> = ranges.iter().map(|range| range.addr().is_ipv6()).collect();
        let end = ranges.iter().map(end).min().unwrap_or_default();
        if ranges.is_empty() || families.len() != ranges.len() || end <= GATEWAY + 1 {
            return Err(AddressError::Ranges {
                ranges: texts(&ranges),
            });
        }
        Ok(Self {
            ranges,
            end,
            used: BTreeSet::new(),
            next: GATEWAY + 1,
        })
    }

    /// The node's addresses towards its Pods, in the order of the ranges.
    pub fn gateways(&self) -> Vec<IpAddr> {
        self.at(GATEWAY)
    }

    /// Addresses for one Pod, in the order of the ranges.
    pub fn allocate(&mut self) -> Result<Vec<IpAddr>, AddressError> {
        let first = GATEWAY + 1;
        let free = (self.next..self.end)
            .chain(first..self.next)
            .find(|place| !self.used.contains(place));
        let Some(place) = free else {
            return Err(AddressError::Exhausted {
                ranges: texts(&self.ranges),
            });
        };
        self.used.insert(place);
        self.next = if place + 1 < self.end { place + 1 } else { first };
        Ok(self.at(place))
    }

    /// Marks the addresses of a Pod that is there already; `false` if they are not of these ranges, or in use.
    pub fn reserve(&mut self, addresses: &[IpAddr]) -> bool {
        match self.place_of(addresses) {
            Some(place) => self.used.insert(place),
            None => false,
        }
    }

    /// Gives the addresses of a Pod back.
    pub fn release(&mut self, addresses: &[IpAddr]) {
        if let Some(place) = self.place_of(addresses) {
            self.used.remove(&place);
        }
    }

    fn place_of(&self, addresses: &[IpAddr]) -> Option<u32> {
        let (first, range) = (addresses.first()?, self.ranges.first()?);
        let place = offset(range, *first)?;
        (place > GATEWAY && place < self.end && self.at(place) == addresses).then_some(place)
    }

    fn at(&self, place: u32) -> Vec<IpAddr> {
        self.ranges.iter().map(|range| nth(range, place)).collect()
    }
}

/// The first place that a range does not have; the last address of an IPv4 range is its broadcast address.
fn end(range: &IpNet) -> u32 {
    let (bits, reserved) = match range {
        IpNet::V4(net) => (32 - net.prefix_len(), 1),
        IpNet::V6(net) => (128 - net.prefix_len(), 0),
    };
    let size = 1u32.checked_shl(bits.into()).unwrap_or(u32::MAX);
    (size - reserved).min(PLACES_MAX)
}

fn nth(range: &IpNet, place: u32) -> IpAddr {
    match range.network() {
        IpAddr::V4(first) => Ipv4Addr::from(u32::from(first).wrapping_add(place)).into(),
        IpAddr::V6(first) => Ipv6Addr::from(u128::from(first).wrapping_add(place.into())).into(),
    }
}

fn offset(range: &IpNet, address: IpAddr) -> Option<u32> {
    match (range.network(), address) {
        (IpAddr::V4(first), IpAddr::V4(address)) => u32::from(address).checked_sub(first.into()),
        (IpAddr::V6(first), IpAddr::V6(address)) => {
            u32::try_from(u128::from(address).checked_sub(first.into())?).ok()
        }
        _ => None,
    }
}

fn texts(ranges: &[IpNet]) -> Vec<String> {
    ranges.iter().map(ToString::to_string).collect()
}
