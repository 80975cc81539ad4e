//! Which of several nodes should have an address: rendezvous hashing. Every node computes the same, and when nodes
//! come or go, only addresses that they win or lose move.

use std::net::IpAddr;

use crate::NodeName;

#[cfg(test)]
mod tests;

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// The node of `nodes` that should have the address.
pub fn winner<'a>(address: IpAddr, nodes: impl Iterator<Item = &'a NodeName>) -> Option<&'a NodeName> {
    nodes.max_by_key(|name| (score(address, name), *name))
}

/// How much a node wants an address. The same on every machine and in every version.
fn score(address: IpAddr, name: &str) -> u64 {
    let hash = match address {
        IpAddr::V4(address) => fnv(FNV_OFFSET, &address.octets()),
        IpAddr::V6(address) => fnv(FNV_OFFSET, &address.octets()),
    };
    mix(fnv(fnv(hash, b"#"), name.as_bytes()))
}

/// FNV-1a.
fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME)
    })
}

/// Lets every bit of the input change about half of the output's: FNV alone hardly spreads its last bytes.
fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
