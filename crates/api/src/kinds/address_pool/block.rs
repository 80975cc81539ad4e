//! One entry of a pool: all addresses from one to another.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use crate::machinery::ip::Family;

/// Addresses of one family that follow each other, written as a CIDR or as `first-last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressBlock {
    first: IpAddr,
    last: IpAddr,
}

/// Why a text is no block; another text is needed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// Neither form.
    #[error("must be a CIDR, (e.g. 192.0.2.0/24 or 2001:db8::/64), or a range, (e.g. 192.0.2.10-192.0.2.20)")]
    Form,
    /// A CIDR that names one address of it.
    #[error("must not have bits set beyond the prefix length: use {0}")]
    HostBits(IpNet),
    /// Both ends are needed from one family.
    #[error("both ends of a range must be of the same family")]
    Families,
    /// Nothing lies between the ends.
    #[error("the first address of a range must not be above the last one")]
    Backwards,
    /// Addresses that no balancer may have.
    #[error("must not contain {0} addresses")]
    Unusable(&'static str),
}

impl AddressBlock {
    /// The block from one address to another, both included.
    pub fn new(first: IpAddr, last: IpAddr) -> Result<Self, BlockError> {
        if Family::of(first) != Family::of(last) {
            return Err(BlockError::Families);
        }
        if first > last {
            return Err(BlockError::Backwards);
        }
        let block = Self { first, last };
        for (network, what) in UNUSABLE {
            let network: IpNet = network.parse().map_err(|_| BlockError::Form)?;
            if block.overlaps(&Self::of_network(network)) {
                return Err(BlockError::Unusable(what));
            }
        }
        Ok(block)
    }

    /// The lowest address.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// The highest address.
    pub fn last(&self) -> IpAddr {
        self.last
    }

    /// Whether an address is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        // Addresses of one family all sort before those of the other.
        self.first <= address && address <= self.last
    }

    /// Whether the two have an address in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        // Addresses of different families are never equal, and all of one sort before those of the other.
        self.first <= other.last && other.first <= self.last
    }

    fn of_network(network: IpNet) -> Self {
        Self {
            first: network.network(),
            last: network.broadcast(),
        }
    }
}

/// Networks whose addresses mean something else (RFC 6890).
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
