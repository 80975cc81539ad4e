//! Preferred owner of an address by rendezvous hashing (highest random weight). All nodes compute the same
//! result, and a node that comes or goes moves only the addresses that it wins or loses.

use std::net::IpAddr;

use crate::NodeName;

#[cfg(test)]
mod tests;

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Returns the preferred owner of an address among `nodes`.
pub fn winner<'a>(address: IpAddr, nodes: impl Iterator<Item = &'a NodeName>) -> Option<&'a NodeName> {
    nodes.max_by_key(|name| (score(address, name), *name))
}

/// Returns the weight of a node for an address. All nodes and versions have to compute the same value.
fn score(address: IpAddr, name: &str) -> u64 {
    let hash = match address {
        IpAddr::V4(address) => fnv(FNV_OFFSET, &address.octets()),
        IpAddr::V6(address) => fnv(FNV_OFFSET, &address.octets()),
    };
    mix(fnv(fnv(hash, b"#"), name.as_bytes()))
}

/// Computes FNV-1a.
fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME)
    })
}

/// Applies the finalizer of SplitMix64: each input bit flips about half of the output bits. FNV alone spreads its last
/// bytes poorly.
fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
