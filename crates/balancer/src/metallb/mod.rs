//! MetalLB's configuration (`metallb.io`): IPAddressPools and L2Advertisements, read as they are.
//!
//! | Module | Contents |
//! |---|---|
//! | [`objects`] | views of MetalLB's objects |
//! | `watch` | watch of the objects, if the API server has the kinds |
//!
//! An IPAddressPool is used like an AddressPool. L2Advertisements select its announcement: without an L2Advertisement,
//! its addresses are assigned and not announced. An AddressPool takes the place of the IPAddressPool with the same
//! name. The crate `speaker` reads the objects of BGP.

pub mod objects;
mod watch;

use std::collections::{BTreeMap, BTreeSet};

use api::field::Path;
use api::selector::LabelSelector;
use serde_json::Value;

use crate::two_tier;
use objects::{IpAddressPool, L2Advertisement, L2AdvertisementSpec};

pub use watch::{Configurations, changed, watch};

/// Namespace of MetalLB's manifests.
pub const NAMESPACE: &str = "metallb-system";
/// Annotation with the pool of a Service's addresses (LBM-05).
pub const POOL_ANNOTATION: &str = "metallb.io/ip-allocated-from-pool";
/// Name of [`POOL_ANNOTATION`] before MetalLB 0.15.
pub const POOL_ANNOTATION_BEFORE: &str = "metallb.universe.tf/ip-allocated-from-pool";

/// MetalLB's objects at one point in time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    /// IPAddressPools by name.
    pub pools: BTreeMap<String, IpAddressPool>,
    /// L2Advertisements by name.
    pub advertisements: BTreeMap<String, L2Advertisement>,
}

impl Configuration {
    /// Returns the L2Advertisements that select a pool.
    pub fn advertisements_of(&self, pool: &IpAddressPool) -> impl Iterator<Item = &L2Advertisement> {
        self.advertisements
            .values()
            .filter(|advertisement| selects_pool(advertisement, pool))
    }

    /// Returns the names of the pools that differ between two configurations, or whose advertisements do. The status
    /// does not matter.
    pub fn changed_pools(&self, before: &Self) -> BTreeSet<String> {
        let names = self.pools.keys().chain(before.pools.keys());
        let differ = |name: &&String| {
            let (new, old) = (self.pools.get(*name), before.pools.get(*name));
            let (Some(new), Some(old)) = (new, old) else {
                return true;
            };
            let is_same = new.spec == old.spec
                && new.metadata.labels == old.metadata.labels
                && two_tier::requested_by_pool(&new.metadata) == two_tier::requested_by_pool(&old.metadata)
                && new.metadata.uid == old.metadata.uid;
            let specs = |of: &Self, pool: &IpAddressPool| -> Vec<L2AdvertisementSpec> {
                of.advertisements_of(pool)
                    .map(|advertisement| advertisement.spec.clone())
                    .collect()
            };
            !is_same || specs(self, new) != specs(before, old)
        };
        names.filter(differ).cloned().collect()
    }
}

/// Returns true if an advertisement selects a pool by its name or its labels. Without names and selectors it
/// selects all pools.
fn selects_pool(advertisement: &L2Advertisement, pool: &IpAddressPool) -> bool {
    let spec = &advertisement.spec;
    if spec.ip_address_pools.is_empty() && spec.ip_address_pool_selectors.is_empty() {
        return true;
    }
    let labels = &pool.metadata.labels;
    let mut selectors = spec.ip_address_pool_selectors.iter();
    spec.ip_address_pools.contains(&pool.metadata.name)
        || selectors.any(|selector| {
            parse_selector("ipAddressPoolSelectors", selector)
                .is_ok_and(|selector| selector.matches(|key| labels.get(key).map(String::as_str)))
        })
}

/// Parses a label selector in a field of MetalLB's objects.
///
/// # Errors
/// A description of the faults, without the field.
pub(crate) fn parse_selector(field: &str, value: &Value) -> Result<LabelSelector, String> {
    let path = Path::new("spec").child(field);
    LabelSelector::from_object(&path, value).map_err(|errors| {
        let errors: Vec<String> = errors.into_iter().map(|error| error.message).collect();
        errors.join("; ")
    })
}

#[cfg(test)]
mod tests;
