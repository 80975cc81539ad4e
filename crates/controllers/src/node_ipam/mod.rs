//! The ranges of Nodes' Pods: each Node gets one of each family out of the cluster's, nobody else has it, and it is free
//! again when the Node is gone (upstream's range allocator).

mod keeper;
mod ranges;
mod run;

use ipnet::IpNet;

pub use ranges::{RangeError, Ranges};
pub use run::run;

/// Bits of a Node's range, as upstream has them.
pub const MASK_SIZE_IPV4: u8 = 24;
/// The same for IPv6.
pub const MASK_SIZE_IPV6: u8 = 64;

/// Where ranges come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The cluster's ranges, one a family (`--cluster-cidr`).
    pub cluster_cidrs: Vec<IpNet>,
    /// Bits of a Node's IPv4 range (`--node-cidr-mask-size-ipv4`).
    pub mask_size_ipv4: u8,
    /// Bits of a Node's IPv6 range (`--node-cidr-mask-size-ipv6`).
    pub mask_size_ipv6: u8,
}

impl Settings {
    /// Ranges of upstream's sizes.
    pub fn of(cluster_cidrs: Vec<IpNet>) -> Self {
        Self {
            cluster_cidrs,
            mask_size_ipv4: MASK_SIZE_IPV4,
            mask_size_ipv6: MASK_SIZE_IPV6,
        }
    }
}

#[cfg(test)]
mod tests;
