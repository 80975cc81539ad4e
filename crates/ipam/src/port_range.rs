//! Allocation of ports from one range.

use std::ops::RangeInclusive;

use crate::address_range::take_next;
use crate::offsets::OffsetSet;
use crate::{Random, TakeError};

/// A range of ports (NP-01), with bands as for addresses but of other sizes (NP-02).
///
/// ```
/// use ipam::{PortRange, TakeError};
///
/// let mut ports = PortRange::new(30_000..=32_767);
/// assert_eq!(ports.take(30_080), Ok(()));
/// assert_eq!(ports.take(30_080), Err(TakeError::Taken));
/// assert_eq!(ports.take(80), Err(TakeError::OutOfRange));
/// assert_eq!(ports.free(), 2_767);
/// ```
#[derive(Clone, Debug)]
pub struct PortRange {
    ports: RangeInclusive<u16>,
    taken: OffsetSet,
}

impl PortRange {
    /// Creates a range with all of `ports` free.
    pub fn new(ports: RangeInclusive<u16>) -> Self {
        Self {
            ports,
            taken: OffsetSet::default(),
        }
    }

    /// Returns the first and the last port.
    pub fn ports(&self) -> RangeInclusive<u16> {
        self.ports.clone()
    }

    /// Returns the number of taken ports.
    pub fn taken(&self) -> u64 {
        self.taken.len()
    }

    /// Returns the number of free ports.
    pub fn free(&self) -> u64 {
        self.size() - self.taken.len()
    }

    /// Returns true if the port is taken.
    pub fn is_taken(&self, port: u16) -> bool {
        self.offset_of(port)
            .is_some_and(|offset| self.taken.contains(offset))
    }

    /// Takes a requested port.
    ///
    /// # Errors
    ///
    /// Returns [`TakeError`] if the port is outside of the range or taken.
    pub fn take(&mut self, port: u16) -> Result<(), TakeError> {
        let offset = self.offset_of(port).ok_or(TakeError::OutOfRange)?;
        if self.taken.insert(offset) {
            Ok(())
        } else {
            Err(TakeError::Taken)
        }
    }

    /// Takes a free port, from the upper band first (NP-03); `None` if all are taken.
    pub fn take_next(&mut self, random: &mut impl Random) -> Option<u16> {
        let size = self.size();
        let offset = take_next(&mut self.taken, size, lower_band(size), random)?;
        // An offset is smaller than the size, so the sum is a port of the range.
        Some(self.ports.start() + offset as u16)
    }

    /// Frees a port; returns false if it was not taken.
    pub fn release(&mut self, port: u16) -> bool {
        self.offset_of(port)
            .is_some_and(|offset| self.taken.remove(offset))
    }

    fn size(&self) -> u64 {
        self.ports.len() as u64
    }

    fn offset_of(&self, port: u16) -> Option<u64> {
        self.ports
            .contains(&port)
            .then(|| u64::from(port - self.ports.start()))
    }
}

/// Returns the size of the lower band for the size of the range (NP-02).
fn lower_band(size: u64) -> u64 {
    const MIN: u64 = 16;
    const MAX: u64 = 128;
    const SHARE: u64 = 32;
    if size <= MIN {
        0
    } else {
        (size / SHARE).clamp(MIN, MAX)
    }
}

#[cfg(test)]
mod tests;
