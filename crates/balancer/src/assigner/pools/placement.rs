//! Nodes and links that announce the addresses of a pool.
//!
//! An AddressPool has one advertisement with its node selectors. A pool of MetalLB has one for each L2Advertisement
//! that selects it, and a node has to match one of them. If several pools contain an address, a node has to satisfy
//! each pool. The links of all advertisements apply together, sorted, so that all nodes compare them as equal.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use api::address_pool::{AddressBlock, LinkPattern};
use api::field::Path;
use api::object::{AddressPool, Labels};
use api::selector::LabelSelector;

use super::{InvalidPool, blocks, metallb_blocks, selector};
use crate::metallb::objects::{IpAddressPool, L2Advertisement};
use crate::metallb::{Configuration, parse_selector};

#[cfg(test)]
mod tests;

/// Nodes and links that announce the addresses of one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    blocks: Vec<AddressBlock>,
    /// Alternatives; without any of them the addresses are not announced.
    advertisements: Vec<Advertisement>,
    /// Links of all advertisements together, sorted and unique, so that all nodes compare them as equal. Empty
    /// for the default links.
    links: Arc<[LinkPattern]>,
}

/// Nodes that announce the addresses of some Services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Advertisement {
    /// A Service has to match one of them; without selectors all Services match.
    services: Vec<LabelSelector>,
    /// A node has to match one of them; without selectors every node may announce.
    nodes: Vec<LabelSelector>,
}

impl Placement {
    /// Parses the selectors and links of an AddressPool.
    ///
    /// # Errors
    /// See [`InvalidPool`].
    pub fn parse(pool: &AddressPool) -> Result<Self, InvalidPool> {
        let spec = &pool.spec;
        let name = &pool.metadata.name;
        let path = Path::new("spec").child("nodeSelectors");
        let nodes = spec.node_selectors.iter().enumerate();
        let nodes = nodes.map(|(index, object)| selector(name, &path.index(index), object));
        let links =
            links(&spec.interfaces).map_err(|reason| InvalidPool::new(name, "spec.interfaces", reason))?;
        Ok(Self {
            blocks: blocks(name, &spec.addresses)?,
            advertisements: vec![Advertisement {
                services: Vec::new(),
                nodes: nodes.collect::<Result<_, _>>()?,
            }],
            links: sort_and_deduplicate(links),
        })
    }

    /// Parses the addresses of MetalLB's IPAddressPool, with the L2Advertisements that select it (LBM-09). An
    /// invalid L2Advertisement is logged and announces nothing.
    ///
    /// # Errors
    /// See [`InvalidPool`].
    pub fn of_metallb(pool: &IpAddressPool, configuration: &Configuration) -> Result<Self, InvalidPool> {
        let mut advertisements = Vec::new();
        let mut all_links = Vec::new();
        let mut has_default_links = false;
        for advertisement in configuration.advertisements_of(pool) {
            match Advertisement::parse(advertisement) {
                Ok((parsed, links)) => {
                    advertisements.push(parsed);
                    has_default_links |= links.is_empty();
                    all_links.extend(links);
                }
                Err(error) => {
                    let name = &advertisement.metadata.name;
                    tracing::error!(name, error, "L2Advertisement ignored until it is corrected");
                }
            }
        }
        if has_default_links {
            all_links.clear();
        }
        Ok(Self {
            blocks: metallb_blocks(pool)?,
            advertisements,
            links: sort_and_deduplicate(all_links),
        })
    }

    /// Returns true if the pool contains the address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.blocks.iter().any(|block| block.contains(address))
    }

    /// Returns true if nodes announce the addresses of a Service with these labels.
    pub fn is_announced(&self, service: &Labels) -> bool {
        self.advertisements_for(service).next().is_some()
    }

    /// Returns true if not every node may announce the addresses of all Services.
    pub fn selects_nodes(&self) -> bool {
        let is_for_all = |advertisement: &Advertisement| {
            advertisement.services.is_empty() && advertisement.nodes.is_empty()
        };
        !self.advertisements.iter().any(is_for_all)
    }

    /// Returns true if a node with the labels `node` may announce the addresses of a Service with the labels
    /// `service`.
    pub fn allows_node(&self, node: &Labels, service: &Labels) -> bool {
        self.advertisements_for(service)
            .any(|advertisement| matches_any(&advertisement.nodes, node))
    }

    /// Returns the links that announce; empty for the default links of the announcer. Links of several L2Advertisements
    /// apply together.
    pub fn links(&self) -> &Arc<[LinkPattern]> {
        &self.links
    }

    fn advertisements_for(&self, service: &Labels) -> impl Iterator<Item = &Advertisement> {
        self.advertisements
            .iter()
            .filter(|advertisement| matches_any(&advertisement.services, service))
    }
}

impl Advertisement {
    /// Parses an L2Advertisement. The second value contains its links.
    fn parse(object: &L2Advertisement) -> Result<(Self, Vec<LinkPattern>), String> {
        let spec = &object.spec;
        let selectors = |field: &str, values: &[serde_json::Value]| {
            let selectors = values.iter().map(|value| {
                parse_selector(field, value).map_err(|reason| format!("spec.{field}: {reason}"))
            });
            selectors.collect::<Result<Vec<_>, _>>()
        };
        let this = Self {
            services: selectors("serviceSelectors", &spec.service_selectors)?,
            nodes: selectors("nodeSelectors", &spec.node_selectors)?,
        };
        Ok((this, links(&spec.interfaces)?))
    }
}

/// Parses patterns of links.
fn links(patterns: &[String]) -> Result<Vec<LinkPattern>, String> {
    let links = patterns.iter().map(|text| {
        let link = text.parse::<LinkPattern>();
        link.map_err(|error| format!("{text:?} {error}"))
    });
    links.collect()
}

fn sort_and_deduplicate(mut links: Vec<LinkPattern>) -> Arc<[LinkPattern]> {
    links.sort_unstable();
    links.dedup();
    links.into()
}

/// Returns true if one of the selectors matches the labels, or if there are no selectors.
pub(super) fn matches_any(selectors: &[LabelSelector], labels: &Labels) -> bool {
    let matches = |selector: &LabelSelector| selector.matches(|key| labels.get(key).map(String::as_str));
    selectors.is_empty() || selectors.iter().any(matches)
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

    /// Returns the links of all pools.
    pub fn links(&self) -> impl Iterator<Item = &LinkPattern> {
        self.pools.values().flat_map(|placement| placement.links.iter())
    }

    /// Returns true if a pool contains the address.
    pub fn contain(&self, address: IpAddr) -> bool {
        self.pools.values().any(|placement| placement.contains(address))
    }

    /// Placements of all pools that contain the address and are announced. A node has to satisfy each of them.
    pub fn for_address(&self, address: IpAddr) -> impl Iterator<Item = &Placement> {
        self.pools
            .values()
            .filter(move |placement| placement.contains(address) && !placement.advertisements.is_empty())
    }
}
