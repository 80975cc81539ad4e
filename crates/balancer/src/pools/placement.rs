//! Where the addresses of a pool are announced: the nodes and the links that it names.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use api::address_pool::{AddressBlock, LinkPattern};
use api::field::Path;
use api::object::{AddressPool, Labels};
use api::selector::LabelSelector;

use super::{UnusablePool, blocks, selector};

#[cfg(test)]
mod tests;

/// What a pool says of places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    blocks: Vec<AddressBlock>,
    /// Nodes that match any of them; all if there is none.
    nodes: Vec<LabelSelector>,
    /// In order and each once, so that all machines take them for the same.
    links: Arc<[LinkPattern]>,
}

impl Placement {
    /// Reads what a pool says.
    ///
    /// # Errors
    /// See [`UnusablePool`].
    pub fn read(pool: &AddressPool) -> Result<Self, UnusablePool> {
        let spec = &pool.spec;
        let path = Path::new("spec").child("nodeSelectors");
        let nodes = spec.node_selectors.iter().enumerate();
        let nodes = nodes.map(|(index, object)| selector(pool, &path.index(index), object));
        let mut links: Vec<LinkPattern> = Vec::new();
        for text in &spec.interfaces {
            let link = text.parse::<LinkPattern>();
            let link =
                link.map_err(|fault| UnusablePool::of(pool, "spec.interfaces", format!("{text:?} {fault}")));
            links.push(link?);
        }
        links.sort_unstable();
        links.dedup();
        Ok(Self {
            blocks: blocks(pool)?,
            nodes: nodes.collect::<Result<_, _>>()?,
            links: links.into(),
        })
    }

    /// Whether an address is one of the pool's.
    pub fn has(&self, address: IpAddr) -> bool {
        self.blocks.iter().any(|block| block.contains(address))
    }

    /// Whether it is not all nodes that may answer.
    pub fn names_nodes(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Whether a node with these labels may answer.
    pub fn is_for_node(&self, labels: &Labels) -> bool {
        let matches = |selector: &LabelSelector| selector.matches(|key| labels.get(key).map(String::as_str));
        self.nodes.is_empty() || self.nodes.iter().any(matches)
    }

    /// The links that it names; none if those that announcers were told to use are meant.
    pub fn links(&self) -> &Arc<[LinkPattern]> {
        &self.links
    }
}

/// The places of all pools.
#[derive(Debug, Default)]
pub struct Placements {
    pools: BTreeMap<String, Placement>,
}

impl Placements {
    /// A pool says this, or nothing any more; whose addresses are concerned.
    pub fn set(&mut self, pool: &str, placement: Option<Placement>) -> Vec<AddressBlock> {
        if self.pools.get(pool) == placement.as_ref() {
            return Vec::new();
        }
        let mut concerned = Vec::new();
        concerned.extend(placement.iter().flat_map(|after| after.blocks.clone()));
        let before = match placement {
            Some(placement) => self.pools.insert(pool.to_owned(), placement),
            None => self.pools.remove(pool),
        };
        concerned.extend(before.into_iter().flat_map(|before| before.blocks));
        concerned
    }

    /// All links that pools name.
    pub fn links(&self) -> impl Iterator<Item = &LinkPattern> {
        self.pools.values().flat_map(|placement| placement.links.iter())
    }

    /// Returns true if a pool contains the address.
    pub fn have(&self, address: IpAddr) -> bool {
        self.of(address).next().is_some()
    }

    /// What the pools that have an address say. All of it holds.
    pub fn of(&self, address: IpAddr) -> impl Iterator<Item = &Placement> {
        self.pools
            .values()
            .filter(move |placement| placement.has(address))
    }
}
