//! Allocation of Pod CIDRs from the cluster CIDRs. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::Settings;

/// Upper bound of Pod CIDRs in a cluster CIDR, as a power of two (upstream's).
const PARTS_BITS_MAX: u8 = 16;

/// The error of invalid settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// No cluster CIDR is given.
    #[error("--cluster-cidr: expected at least one CIDR")]
    None,
    /// Two cluster CIDRs have the same family.
    #[error("--cluster-cidr {0}: expected at most one CIDR of each IP family")]
    Family(IpNet),
    /// The Pod CIDRs are larger than the cluster CIDR, or too many.
    #[error(
        "--cluster-cidr {range}: expected between 1 and 2^16 Pod CIDRs of size /{mask_size}; change the node CIDR mask size"
    )]
    Mask {
        /// The cluster CIDR.
        range: IpNet,
        /// The mask size of Pod CIDRs.
        mask_size: u8,
    },
}

/// The Pod CIDRs of a Node.
type NodeRanges = Vec<IpNet>;

/// The cluster CIDRs and the Nodes that hold their parts.
#[derive(Debug)]
pub struct Ranges {
    cluster_ranges: Vec<ClusterRange>,
    holders: BTreeMap<String, NodeRanges>,
}

/// A range of the cluster, and the Pod CIDRs in it that are taken.
#[derive(Debug)]
struct ClusterRange {
    range: IpNet,
    mask_size: u8,
    /// Number of holders by index. Nodes from before this allocator may hold overlapping Pod CIDRs.
    taken: BTreeMap<u32, usize>,
    /// Start of the next search. Round robin keeps a released Pod CIDR unused for as long as possible.
    next: u32,
}

impl Ranges {
    /// Creates an allocator without holders.
    ///
    /// # Errors
    /// See [`RangeError`].
    pub fn new(settings: &Settings) -> Result<Self, RangeError> {
        let mut families = BTreeSet::new();
        let mut cluster_ranges = Vec::new();
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
            cluster_ranges.push(ClusterRange {
                range: range.trunc(),
                mask_size,
                taken: BTreeMap::new(),
                next: 0,
            });
        }
        if cluster_ranges.is_empty() {
            return Err(RangeError::None);
        }
        Ok(Self {
            cluster_ranges,
            holders: BTreeMap::new(),
        })
    }

    /// Records the Pod CIDRs of a Node. Ranges outside of the cluster CIDRs are not counted.
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

    /// Frees the Pod CIDRs of a Node.
    pub fn release(&mut self, node: &str) {
        for range in self.holders.remove(node).unwrap_or_default() {
            self.count(&range, false);
        }
    }

    /// Returns the Pod CIDRs of a Node.
    pub fn held(&self, node: &str) -> Option<&[IpNet]> {
        self.holders.get(node).map(Vec::as_slice)
    }

    /// Allocates one Pod CIDR of each family, or returns those that the Node holds; `None` if a family is
    /// exhausted.
    pub fn allocate(&mut self, node: &str) -> Option<Vec<IpNet>> {
        if let Some(held) = self.holders.get(node) {
            return Some(held.clone());
        }
        let indices: Option<Vec<u32>> = self.cluster_ranges.iter().map(ClusterRange::free).collect();
        let indices = indices?;
        let mut ranges = Vec::new();
        for (cluster_range, index) in self.cluster_ranges.iter_mut().zip(indices) {
            cluster_range.next = (index + 1) % cluster_range.parts();
            ranges.push(cluster_range.part(index));
        }
        self.hold(node, &ranges);
        Some(ranges)
    }

    fn count(&mut self, range: &IpNet, is_held: bool) {
        for cluster_range in &mut self.cluster_ranges {
            for index in cluster_range.indices(range) {
                let count = cluster_range.taken.entry(index).or_default();
                *count = if is_held {
                    *count + 1
                } else {
                    count.saturating_sub(1)
                };
                if *count == 0 {
                    cluster_range.taken.remove(&index);
                }
            }
        }
    }
}

impl ClusterRange {
    fn parts(&self) -> u32 {
        1 << (self.mask_size - self.range.prefix_len())
    }

    fn free(&self) -> Option<u32> {
        let mut indices = (self.next..self.parts()).chain(0..self.next);
        indices.find(|index| !self.taken.contains_key(index))
    }

    fn part(&self, index: u32) -> IpNet {
        let shift = u32::from(self.range.max_prefix_len() - self.mask_size);
        let address: IpAddr = match self.range.network() {
            IpAddr::V4(first) => {
                let offset = index.checked_shl(shift).unwrap_or(0);
                Ipv4Addr::from(u32::from(first) | offset).into()
            }
            IpAddr::V6(first) => {
                let offset = u128::from(index).checked_shl(shift).unwrap_or(0);
                Ipv6Addr::from(u128::from(first) | offset).into()
            }
        };
        IpNet::new_assert(address, self.mask_size)
    }

    /// Returns the indices of the Pod CIDRs that a range overlaps.
    fn indices(&self, range: &IpNet) -> std::ops::Range<u32> {
        let (first, last) = (range.network(), range.broadcast());
        let is_apart = match (&self.range, range) {
            (IpNet::V4(cluster_range), IpNet::V4(range)) => {
                !cluster_range.contains(range) && !range.contains(cluster_range)
            }
            (IpNet::V6(cluster_range), IpNet::V6(range)) => {
                !cluster_range.contains(range) && !range.contains(cluster_range)
            }
            _ => true,
        };
        if is_apart {
            return 0..0;
        }
        let index = |address: IpAddr| -> u32 {
            let shift = u32::from(self.range.max_prefix_len() - self.mask_size);
            let offset = match (self.range.network(), address) {
                (IpAddr::V4(begin), IpAddr::V4(address)) => {
                    u128::from(u32::from(address).saturating_sub(begin.into()))
                }
                (IpAddr::V6(begin), IpAddr::V6(address)) => u128::from(address).saturating_sub(begin.into()),
                _ => 0,
            };
            let index = offset.checked_shr(shift).unwrap_or(0);
            u32::try_from(index).unwrap_or(u32::MAX).min(self.parts() - 1)
        };
        index(first)..index(last) + 1
    }
}
