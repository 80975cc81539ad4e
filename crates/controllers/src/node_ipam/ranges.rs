//! Which parts of the cluster's ranges are taken. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::Settings;

/// Parts of a cluster's range at most (upstream's): more are no Nodes that one cluster has.
const PARTS_BITS_MAX: u8 = 16;

/// Why ranges cannot be given out. Other settings help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// No range.
    #[error("--cluster-cidr names no range")]
    None,
    /// Two of a family.
    #[error("--cluster-cidr {0}: one range of each family at most")]
    Family(IpNet),
    /// The parts are larger than the whole, or too many.
    #[error(
        "--cluster-cidr {range} cannot be divided into ranges of /{mask_size}: it must be larger than one of them, and \
         have no more than 2^16"
    )]
    Mask {
        /// The cluster's range.
        range: IpNet,
        /// Bits of a Node's.
        mask_size: u8,
    },
}

/// What a Node has.
type Held = Vec<IpNet>;

/// The parts of the cluster's ranges, and whose they are.
#[derive(Debug)]
pub struct Ranges {
    wholes: Vec<Whole>,
    holders: BTreeMap<String, Held>,
}

#[derive(Debug)]
struct Whole {
    range: IpNet,
    mask_size: u8,
    /// How often each part is held, by its place: two Nodes of before may have overlapping ranges.
    taken: BTreeMap<u32, usize>,
    /// Where the search goes on: a part rests as long as possible before its next Node.
    next: u32,
}

impl Ranges {
    /// With everything free.
    ///
    /// # Errors
    /// See [`RangeError`].
    pub fn new(settings: &Settings) -> Result<Self, RangeError> {
        let mut families = BTreeSet::new();
        let mut wholes = Vec::new();
        for range in &settings.cluster_cidrs {
            if !families.insert(range.addr().is_ipv4()) {
                return Err(RangeError::Family(*range));
            }
            let mask_size = match range {
                IpNet::V4(_) => settings.mask_size_ipv4,
                IpNet::V6(_) => settings.mask_size_ipv6,
            };
            let bits = mask_size.checked_sub(range.prefix_len());
            if mask_size > range.max_prefix_len() || bits.is_none_or(|bits| bits > PARTS_BITS_MAX) {
                return Err(RangeError::Mask {
                    range: *range,
                    mask_size,
                });
            }
            wholes.push(Whole {
                range: range.trunc(),
                mask_size,
                taken: BTreeMap::new(),
                next: 0,
            });
        }
        match wholes.is_empty() {
            true => Err(RangeError::None),
            false => Ok(Self {
                wholes,
                holders: BTreeMap::new(),
            }),
        }
    }

    /// Takes down what a Node has; what lies outside of the cluster's ranges is nobody's business.
    pub fn hold(&mut self, node: &str, ranges: &[IpNet]) {
        if self.holders.get(node).is_some_and(|held| held == ranges) {
            return;
        }
        self.release(node);
        for range in ranges {
            self.count(range, true);
        }
        self.holders.insert(node.to_owned(), ranges.to_vec());
    }

    /// What a Node had is free.
    pub fn release(&mut self, node: &str) {
        for range in self.holders.remove(node).unwrap_or_default() {
            self.count(&range, false);
        }
    }

    /// What a Node has.
    pub fn held(&self, node: &str) -> Option<&[IpNet]> {
        self.holders.get(node).map(Vec::as_slice)
    }

    /// Gives a Node a range of each family; `None` if one of them has none left. The same again for a Node that has some.
    pub fn allocate(&mut self, node: &str) -> Option<Vec<IpNet>> {
        if let Some(held) = self.holders.get(node) {
            return Some(held.clone());
        }
        let places: Option<Vec<u32>> = self.wholes.iter().map(Whole::free).collect();
        let places = places?;
        let mut ranges = Vec::new();
        for (whole, place) in self.wholes.iter_mut().zip(places) {
            whole.next = (place + 1) % whole.parts();
            ranges.push(whole.part(place));
        }
        self.hold(node, &ranges);
        Some(ranges)
    }

    fn count(&mut self, range: &IpNet, is_held: bool) {
        for whole in &mut self.wholes {
            for place in whole.places(range) {
                let count = whole.taken.entry(place).or_default();
                *count = if is_held {
                    *count + 1
                } else {
                    count.saturating_sub(1)
                };
                if *count == 0 {
                    whole.taken.remove(&place);
                }
            }
        }
    }
}

impl Whole {
    fn parts(&self) -> u32 {
        1 << (self.mask_size - self.range.prefix_len())
    }

    fn free(&self) -> Option<u32> {
        let mut places = (self.next..self.parts()).chain(0..self.next);
        places.find(|place| !self.taken.contains_key(place))
    }

    fn part(&self, place: u32) -> IpNet {
        let shift = u32::from(self.range.max_prefix_len() - self.mask_size);
        let address: IpAddr = match self.range.network() {
            IpAddr::V4(first) => {
                let offset = place.checked_shl(shift).unwrap_or(0);
                Ipv4Addr::from(u32::from(first) | offset).into()
            }
            IpAddr::V6(first) => {
                let offset = u128::from(place).checked_shl(shift).unwrap_or(0);
                Ipv6Addr::from(u128::from(first) | offset).into()
            }
        };
        IpNet::new_assert(address, self.mask_size)
    }

    /// The parts that a range touches: several if it is larger than one, one if it lies within.
    fn places(&self, range: &IpNet) -> std::ops::Range<u32> {
        let (first, last) = (range.network(), range.broadcast());
        let is_apart = match (&self.range, range) {
            (IpNet::V4(whole), IpNet::V4(range)) => !whole.contains(range) && !range.contains(whole),
            (IpNet::V6(whole), IpNet::V6(range)) => !whole.contains(range) && !range.contains(whole),
            _ => true,
        };
        if is_apart {
            return 0..0;
        }
        let place = |address: IpAddr| -> u32 {
            let shift = u32::from(self.range.max_prefix_len() - self.mask_size);
            let offset = match (self.range.network(), address) {
                (IpAddr::V4(begin), IpAddr::V4(address)) => {
                    u128::from(u32::from(address).saturating_sub(begin.into()))
                }
                (IpAddr::V6(begin), IpAddr::V6(address)) => u128::from(address).saturating_sub(begin.into()),
                _ => 0,
            };
            let place = offset.checked_shr(shift).unwrap_or(0);
            u32::try_from(place).unwrap_or(u32::MAX).min(self.parts() - 1)
        };
        place(first)..place(last) + 1
    }
}
