//! Address pools of Portolan and MetalLB.

use std::collections::BTreeSet;
use std::net::IpAddr;

use api::address_pool::AddressBlock;
use ipnet::IpNet;
use serde_json::Value;

use crate::kind::Kind;
use crate::object::Object;
use crate::world::World;

/// Annotations of Services with the requested pool.
pub(crate) const POOL_ANNOTATIONS: [&str; 3] = [
    "portolan.dev/address-pool",
    "metallb.io/address-pool",
    "metallb.universe.tf/address-pool",
];

/// An address pool.
#[derive(Clone, Debug)]
pub(crate) struct Pool<'w> {
    /// AddressPool or IPAddressPool.
    pub object: &'w Object,
    /// Readable blocks. Pools with addresses of nodes have none.
    blocks: Vec<AddressBlock>,
}

/// Returns all pools.
pub(crate) fn pools(world: &World) -> Vec<Pool<'_>> {
    let objects = world.all(Kind::AddressPool).chain(world.all(Kind::IpAddressPool));
    objects
        .map(|object| Pool {
            object,
            blocks: object.list("/spec/addresses").iter().filter_map(block).collect(),
        })
        .collect()
}

/// Reads a block. MetalLB permits host bits in a CIDR.
fn block(entry: &Value) -> Option<AddressBlock> {
    let text = entry.as_str()?.trim();
    if let Ok(net) = text.parse::<IpNet>() {
        return AddressBlock::new(net.network(), net.broadcast()).ok();
    }
    let (first, last) = text.split_once('-')?;
    AddressBlock::new(first.trim().parse().ok()?, last.trim().parse().ok()?).ok()
}

impl Pool<'_> {
    /// Returns true if all addresses of the pool are known: it has blocks only, and all are readable.
    pub(crate) fn is_readable(&self) -> bool {
        !self.blocks.is_empty() && self.blocks.len() == self.object.list("/spec/addresses").len()
    }

    /// Returns true if Services that request no pool receive addresses of it.
    pub(crate) fn is_automatic(&self) -> bool {
        self.object.at("/spec/autoAssign").as_bool().unwrap_or(true)
    }

    /// Returns true if the pool does not choose among Services.
    pub(crate) fn serves_all(&self) -> bool {
        let is_unset = |pointer: &str| self.object.at(pointer).is_null();
        is_unset("/spec/namespaceSelector")
            && is_unset("/spec/serviceSelector")
            && is_unset("/spec/serviceAllocation")
    }

    /// Returns true if a block contains the address.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.blocks.iter().any(|block| block.contains(address))
    }

    /// Returns true if a block has addresses of the family.
    pub(crate) fn has_family(&self, is_v6: bool) -> bool {
        self.blocks.iter().any(|block| block.first().is_ipv6() == is_v6)
    }

    /// Returns true if all addresses of a family are among `used`. Large blocks count as not full.
    pub(crate) fn is_full(&self, is_v6: bool, used: &BTreeSet<IpAddr>) -> bool {
        let blocks = self
            .blocks
            .iter()
            .filter(|block| block.first().is_ipv6() == is_v6);
        let sizes: Vec<Option<usize>> = blocks.map(size).collect();
        let total: Option<usize> = sizes.iter().copied().sum();
        let assigned = used
            .iter()
            .filter(|address| address.is_ipv6() == is_v6 && self.contains(**address))
            .count();
        !sizes.is_empty() && total.is_some_and(|total| assigned >= total)
    }
}

/// Returns the number of addresses of a block; `None` if it is larger than any number of Services.
fn size(block: &AddressBlock) -> Option<usize> {
    let number = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    };
    usize::try_from(
        number(block.last())
            .checked_sub(number(block.first()))?
            .checked_add(1)?,
    )
    .ok()
}

#[cfg(test)]
mod tests;
