//! Address blocks: the entries of a pool.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use crate::machinery::ip::Family;

/// Contiguous addresses of one family, written as a CIDR or as `first-last`.
///
/// ```
/// use api::address_pool::AddressBlock;
///
/// let block: AddressBlock = "192.0.2.10-192.0.2.20".parse().expect("a range");
/// assert!(block.contains("192.0.2.15".parse().expect("an address")));
/// assert!("192.0.2.1/24".parse::<AddressBlock>().is_err(), "host bits are set");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressBlock {
    first: IpAddr,
    last: IpAddr,
}

/// Error of a text that is not an address block. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// Neither CIDR nor range.
    #[error("must be a CIDR (e.g. 192.0.2.0/24 or 2001:db8::/64) or a range (e.g. 192.0.2.10-192.0.2.20)")]
    Form,
    /// CIDR with host bits.
    #[error("must not have bits set beyond the prefix length: use {0}")]
    HostBits(IpNet),
    /// Ends of different families.
    #[error("both ends of a range must be of the same family")]
    Families,
    /// First address above the last one.
    #[error("the first address of a range must not be above the last one")]
    Backwards,
    /// Contains addresses that a load balancer cannot use.
    #[error("must not contain {0} addresses")]
    Unusable(&'static str),
}

impl AddressBlock {
    /// Returns the block from `first` to `last`, both included.
    ///
    /// # Errors
    /// See [`BlockError`].
    pub fn new(first: IpAddr, last: IpAddr) -> Result<Self, BlockError> {
        if Family::of(first) != Family::of(last) {
            return Err(BlockError::Families);
        }
        if first > last {
            return Err(BlockError::Backwards);
        }
        let block = Self { first, last };
        for (network, subject) in UNUSABLE {
            let network: IpNet = network.parse().map_err(|_| BlockError::Form)?;
            if block.overlaps(&Self::of_network(network)) {
                return Err(BlockError::Unusable(subject));
            }
        }
        Ok(block)
    }

    /// Returns the lowest address.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// Returns the highest address.
    pub fn last(&self) -> IpAddr {
        self.last
    }

    /// Returns true if the block contains the address.
    pub fn contains(&self, address: IpAddr) -> bool {
        // `IpAddr` orders all IPv4 addresses before all IPv6 addresses.
        self.first <= address && address <= self.last
    }

    /// Returns true if the blocks have an address in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        // `IpAddr` orders all IPv4 addresses before all IPv6 addresses, so blocks of two families never overlap.
        self.first <= other.last && other.first <= self.last
    }

    fn of_network(network: IpNet) -> Self {
        Self {
            first: network.network(),
            last: network.broadcast(),
        }
    }
}

/// Networks of special purpose (RFC 6890).
const UNUSABLE: [(&str, &str); 6] = [
    ("0.0.0.0/8", "unspecified"),
    ("127.0.0.0/8", "loopback"),
    ("224.0.0.0/3", "multicast or reserved"),
    ("::/127", "unspecified or loopback"),
    ("fe80::/10", "link-local"),
    ("ff00::/8", "multicast"),
];

impl FromStr for AddressBlock {
    type Err = BlockError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some((first, last)) = text.split_once('-') {
            let end = |text: &str| text.trim().parse().map_err(|_| BlockError::Form);
            return Self::new(end(first)?, end(last)?);
        }
        let network: IpNet = text.parse().map_err(|_| BlockError::Form)?;
        if network != network.trunc() {
            return Err(BlockError::HostBits(network.trunc()));
        }
        Self::new(network.network(), network.broadcast())
    }
}

impl fmt::Display for AddressBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}
