//! Allocation of host IDs to Pods. Pure.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::id_map::IdMaps;

#[cfg(test)]
mod tests;

/// IDs of one Pod (upstream's default of `userNamespaces.idsPerPod`). Ranges start at multiples of it.
pub const IDS_PER_POD: u32 = 1 << 16;
/// Index of the first range. Lower IDs belong to users of the host.
const FIRST_INDEX: u16 = 1;
/// Index of the last range. The next one contains 4294967295, which is not a valid ID.
const LAST_INDEX: u16 = u16::MAX - 1;

/// Host IDs of one Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct IdRange {
    index: u16,
}

/// Error of a number that no range starts with.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the first ID of a range, a multiple of 65536 from 65536 to 4294836224, found {first}")]
pub struct InvalidRangeStart {
    /// Rejected host ID.
    pub first: u32,
}

impl IdRange {
    /// Returns the host ID of the Pod's root.
    pub fn first(self) -> u32 {
        u32::from(self.index) * IDS_PER_POD
    }

    /// Returns the host ID of an ID in the Pod; `None` if the Pod has no such ID.
    pub fn host_id(self, id: u32) -> Option<u32> {
        (id < IDS_PER_POD).then(|| self.first() + id)
    }
}

impl TryFrom<u32> for IdRange {
    type Error = InvalidRangeStart;

    fn try_from(first: u32) -> Result<Self, InvalidRangeStart> {
        let index = u16::try_from(first / IDS_PER_POD).map_err(|_| InvalidRangeStart { first })?;
        let is_range = first.is_multiple_of(IDS_PER_POD) && (FIRST_INDEX..=LAST_INDEX).contains(&index);
        is_range
            .then_some(Self { index })
            .ok_or(InvalidRangeStart { first })
    }
}

impl From<IdRange> for u32 {
    fn from(range: IdRange) -> Self {
        range.first()
    }
}

/// Error of an allocation.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// All ranges are in use. Pods that end release theirs.
    #[error(
        "could not find an empty slot to allocate a user namespace: all {ranges} ranges of 65536 IDs are in use"
    )]
    Exhausted {
        /// Number of ranges.
        ranges: usize,
    },
    /// The agent runs in a user namespace with too few IDs.
    #[error(
        "the user namespace of the agent has no range of 65536 IDs from 65536 on; \
         run the agent as root of the host, or map more IDs"
    )]
    NotMapped,
}

/// Ranges of one node.
#[derive(Debug)]
pub struct RangePool {
    /// Ranges that can be allocated.
    ranges: Vec<IdRange>,
    used: BTreeSet<IdRange>,
    /// Index at which the search continues, so that a released range is reused as late as possible.
    next: usize,
}

impl RangePool {
    /// Creates a pool with a range for each Pod of the node, from ID 65536 on. `maps` are the IDs of the agent.
    pub fn new(pods_max: usize, maps: &IdMaps) -> Self {
        let indices = (FIRST_INDEX..=LAST_INDEX).take(pods_max);
        let ranges = indices.map(|index| IdRange { index });
        Self {
            ranges: ranges.filter(|range| maps.contain(*range)).collect(),
            used: BTreeSet::new(),
            next: 0,
        }
    }

    /// Allocates a range for a Pod.
    ///
    /// # Errors
    /// See [`RangeError`].
    pub fn allocate(&mut self) -> Result<IdRange, RangeError> {
        let count = self.ranges.len();
        if count == 0 {
            return Err(RangeError::NotMapped);
        }
        let indices = (self.next..count).chain(0..self.next);
        let mut candidates = indices.filter_map(|index| Some((index, *self.ranges.get(index)?)));
        let free = candidates.find(|(_, range)| !self.used.contains(range));
        let (index, range) = free.ok_or(RangeError::Exhausted { ranges: count })?;
        self.used.insert(range);
        self.next = (index + 1) % count;
        Ok(range)
    }

    /// Reserves the range of an existing Pod. Returns false if it is in use.
    pub fn reserve(&mut self, range: IdRange) -> bool {
        self.used.insert(range)
    }

    /// Releases the range of a Pod.
    pub fn release(&mut self, range: IdRange) {
        self.used.remove(&range);
    }
}
