//! Allocation of addresses from one CIDR.
//!
//! The lower band has a sixteenth of the addresses, 16 to 256, and none in a CIDR of at most 16 addresses (FAM-20).
//! Automatic allocation takes addresses of the upper band first, so that those of the lower band stay free for
//! requests. It begins at a random offset and wraps around. The taken addresses are a set of offsets from the first
//! one, so memory does not grow with the size of the CIDR.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::offsets::OffsetSet;
use crate::{Random, TakeError};

/// Shortest IPv6 prefix length: offsets are 64 bits wide (FAM-19).
const IPV6_PREFIX_MIN: u8 = 64;

/// The assignable addresses of one CIDR: all except the network address and, for IPv4, the broadcast address
/// (FAM-18, FAM-19). Memory grows with the number of taken addresses.
#[derive(Clone, Debug)]
pub struct AddressRange {
    net: IpNet,
    /// Number of assignable addresses.
    size: u64,
    /// Number of addresses in the lower band, which begins with the first.
    lower_band: u64,
    taken: OffsetSet,
}

/// The CIDR is too large; a longer prefix is needed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{net} is too large: expected an IPv6 prefix of at least {IPV6_PREFIX_MIN} bits")]
pub struct UnusableRange {
    /// Rejected CIDR.
    pub net: IpNet,
}

impl AddressRange {
    /// Creates a range with all addresses of `net` free; host bits of `net` are ignored.
    ///
    /// # Errors
    ///
    /// Returns [`UnusableRange`] if an IPv6 prefix is too short.
    pub fn new(net: IpNet) -> Result<Self, UnusableRange> {
        let net = net.trunc();
        if matches!(net, IpNet::V6(_)) && net.prefix_len() < IPV6_PREFIX_MIN {
            return Err(UnusableRange { net });
        }
        let total = 1u128 << (net.max_prefix_len() - net.prefix_len());
        let unusable = if matches!(net, IpNet::V4(_)) { 2 } else { 1 };
        let size = u64::try_from(total.saturating_sub(unusable)).unwrap_or(u64::MAX);
        let lower_band = lower_band(total).min(size);
        Ok(Self {
            net,
            size,
            lower_band,
            taken: OffsetSet::default(),
        })
    }

    /// Returns the CIDR.
    pub fn net(&self) -> IpNet {
        self.net
    }

    /// Returns the network address, which is never assigned.
    pub fn base(&self) -> IpAddr {
        self.net.network()
    }

    /// Returns the first assignable address, if there is one.
    pub fn first(&self) -> Option<IpAddr> {
        (self.size > 0).then(|| self.address_of(0))
    }

    /// Returns the number of taken addresses.
    pub fn taken(&self) -> u64 {
        self.taken.len()
    }

    /// Returns the number of free addresses.
    pub fn free(&self) -> u64 {
        self.size - self.taken.len()
    }

    /// Returns true if the range can assign `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.offset_of(address).is_some()
    }

    /// Returns true if `address` is taken.
    pub fn is_taken(&self, address: IpAddr) -> bool {
        self.offset_of(address)
            .is_some_and(|offset| self.taken.contains(offset))
    }

    /// Takes a requested address, from either band (FAM-22).
    ///
    /// # Errors
    ///
    /// Returns [`TakeError`] if the address is outside of the range or taken.
    pub fn take(&mut self, address: IpAddr) -> Result<(), TakeError> {
        let offset = self.offset_of(address).ok_or(TakeError::OutOfRange)?;
        if self.taken.insert(offset) {
            Ok(())
        } else {
            Err(TakeError::Taken)
        }
    }

    /// Takes a free address of the upper band, or of the lower band if the upper one is full (FAM-21). The search
    /// begins at a random offset and wraps around. `None` if all are taken.
    pub fn take_next(&mut self, random: &mut impl Random) -> Option<IpAddr> {
        let offset = take_next(&mut self.taken, self.size, self.lower_band, random)?;
        Some(self.address_of(offset))
    }

    /// Frees an address; returns false if it was not taken.
    pub fn release(&mut self, address: IpAddr) -> bool {
        self.offset_of(address)
            .is_some_and(|offset| self.taken.remove(offset))
    }

    fn address_of(&self, offset: u64) -> IpAddr {
        match self.net.network() {
            // The size of an IPv4 range fits into 32 bits, so the sum stays inside of the range.
            IpAddr::V4(base) => IpAddr::V4(Ipv4Addr::from_bits(base.to_bits() + 1 + offset as u32)),
            IpAddr::V6(base) => IpAddr::V6(Ipv6Addr::from_bits(base.to_bits() + 1 + u128::from(offset))),
        }
    }

    fn offset_of(&self, address: IpAddr) -> Option<u64> {
        let distance = match (self.net.network(), address) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                u128::from(address.to_bits()).checked_sub(u128::from(base.to_bits()))?
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => address.to_bits().checked_sub(base.to_bits())?,
            _ => return None,
        };
        let offset = u64::try_from(distance.checked_sub(1)?).ok()?;
        (offset < self.size).then_some(offset)
    }
}

/// Returns the size of the lower band for the size of the CIDR (FAM-20).
fn lower_band(total: u128) -> u64 {
    const MIN: u128 = 16;
    const MAX: u128 = 256;
    const SHARE: u128 = 16;
    if total <= MIN {
        return 0;
    }
    // At most 256.
    (total / SHARE).clamp(MIN, MAX) as u64
}

/// Takes a free offset below `size`, from the upper band first.
pub(crate) fn take_next(
    taken: &mut OffsetSet,
    size: u64,
    lower_band: u64,
    random: &mut impl Random,
) -> Option<u64> {
    for band in [lower_band..size, 0..lower_band] {
        if band.is_empty() {
            continue;
        }
        let start = band.start + random(band.end - band.start);
        let found = taken
            .first_free(start..band.end)
            .or_else(|| taken.first_free(band.start..start));
        if let Some(offset) = found {
            taken.insert(offset);
            return Some(offset);
        }
    }
    None
}

#[cfg(test)]
mod tests;
