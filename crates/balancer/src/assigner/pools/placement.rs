//! Nodes and links that announce the addresses of a pool.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use api::address_pool::{AddressBlock, LinkPattern};
use api::field::Path;
use api::object::{AddressPool, Labels};
use api::selector::LabelSelector;

use super::{InvalidPool, blocks, selector};

#[cfg(test)]
mod tests;

/// Nodes and links that announce the addresses of one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    blocks: Vec<AddressBlock>,
    /// A node has to match one of them; without selectors every node may announce.
    nodes: Vec<LabelSelector>,
    /// Sorted and unique, so that all nodes compare them as equal.
    links: Arc<[LinkPattern]>,
}

impl Placement {
    /// Parses the selectors and links of a pool.
    ///
    /// # Errors
    /// See [`InvalidPool`].
    pub fn parse(pool: &AddressPool) -> Result<Self, InvalidPool> {
        let spec = &pool.spec;
        let path = Path::new("spec").child("nodeSelectors");
        let nodes = spec.node_selectors.iter().enumerate();
        let nodes = nodes.map(|(index, object)| selector(pool, &path.index(index), object));
        let mut links: Vec<LinkPattern> = Vec::new();
        for text in &spec.interfaces {
            let link = text.parse::<LinkPattern>();
            links.push(
                link.map_err(|error| InvalidPool::new(pool, "spec.interfaces", format!("{text:?} {error}")))?,
            );
        }
        links.sort_unstable();
        links.dedup();
        Ok(Self {
            blocks: blocks(pool)?,
            nodes: nodes.collect::<Result<_, _>>()?,
            links: links.into(),
        })
    }

    /// Returns true if the pool contains the address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.blocks.iter().any(|block| block.contains(address))
    }

    /// Returns true if not every node may announce.
    pub fn selects_nodes(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Returns true if a node with these labels may announce.
    pub fn allows_node(&self, labels: &Labels) -> bool {
        let matches = |selector: &LabelSelector| selector.matches(|key| labels.get(key).map(String::as_str));
        self.nodes.is_empty() || self.nodes.iter().any(matches)
    }

    /// Links that announce; empty for the default links of the announcer.
    pub fn links(&self) -> &Arc<[LinkPattern]> {
        &self.links
    }
}

/// Placements of all pools.
#[derive(Debug, Default)]
pub struct Placements {
    pools: BTreeMap<String, Placement>,
}

impl Placements {
    /// Sets or removes the placement of a pool. Returns the affected addresses.
    pub fn set(&mut self, pool: &str, placement: Option<Placement>) -> Vec<AddressBlock> {
        if self.pools.get(pool) == placement.as_ref() {
            return Vec::new();
        }
        let mut affected = Vec::new();
        affected.extend(placement.iter().flat_map(|after| after.blocks.clone()));
        let before = match placement {
            Some(placement) => self.pools.insert(pool.to_owned(), placement),
            None => self.pools.remove(pool),
        };
        affected.extend(before.into_iter().flat_map(|before| before.blocks));
        affected
    }

    /// Links of all pools.
    pub fn links(&self) -> impl Iterator<Item = &LinkPattern> {
        self.pools.values().flat_map(|placement| placement.links.iter())
    }

    /// Returns true if a pool contains the address.
    pub fn contain(&self, address: IpAddr) -> bool {
        self.for_address(address).next().is_some()
    }

    /// Placements of all pools that contain the address. A node has to satisfy each of them.
    pub fn for_address(&self, address: IpAddr) -> impl Iterator<Item = &Placement> {
        self.pools
            .values()
            .filter(move |placement| placement.contains(address))
    }
}
