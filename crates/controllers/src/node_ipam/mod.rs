//! Pod CIDRs of Nodes (upstream's range allocator). Each Node receives one Pod CIDR of each family from the
//! cluster CIDRs, which is free again after the Node is deleted.

mod controller;
mod ranges;
mod run;

use ipnet::IpNet;

pub use ranges::{RangeError, Ranges};
pub use run::run;

/// Upstream's default mask size of a Node's IPv4 Pod CIDR.
pub const MASK_SIZE_IPV4: u8 = 24;
/// Upstream's default mask size of a Node's IPv6 Pod CIDR.
pub const MASK_SIZE_IPV6: u8 = 64;

/// Settings of the node IPAM controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The cluster CIDRs, at most one of each family (`--cluster-cidr`).
    pub cluster_cidrs: Vec<IpNet>,
    /// Mask size of IPv4 Pod CIDRs (`--node-cidr-mask-size-ipv4`).
    pub mask_size_ipv4: u8,
    /// Mask size of IPv6 Pod CIDRs (`--node-cidr-mask-size-ipv6`).
    pub mask_size_ipv6: u8,
}

impl Settings {
    /// Creates settings with upstream's mask sizes.
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
