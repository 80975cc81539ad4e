//! Preferred owner of an address by rendezvous hashing (highest random weight). All nodes compute the same
//! result, and a node that comes or goes moves only the addresses that it wins or loses.

use std::net::IpAddr;

use api::hash::fnv1a_64;

use crate::NodeName;

#[cfg(test)]
mod tests;

/// Returns the preferred owner of an address among `nodes`.
pub fn winner<'a>(address: IpAddr, nodes: impl Iterator<Item = &'a NodeName>) -> Option<&'a NodeName> {
    nodes.max_by_key(|name| (score(address, name), *name))
}

/// Returns the weight of a node for an address. All nodes and versions have to compute the same value.
fn score(address: IpAddr, name: &str) -> u64 {
    let hash = |octets: &[u8]| {
        let octets = octets.iter().copied();
        fnv1a_64(octets.chain([b'#']).chain(name.bytes()))
    };
    finalize(match address {
        IpAddr::V4(address) => hash(&address.octets()),
        IpAddr::V6(address) => hash(&address.octets()),
    })
}

/// Applies the finalizer of SplitMix64: each input bit flips about half of the output bits. FNV alone spreads its last
/// bytes poorly.
fn finalize(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
