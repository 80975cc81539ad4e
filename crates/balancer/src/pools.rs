//! AddressPools as the balancer uses them: read once, and asked whether they are for a Service.

mod placement;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::address_pool::{AddressBlock, BlockError};
use api::field::Path;
use api::object::{AddressPool, AddressPoolUsage, Labels, Service};
use api::selector::LabelSelector;
use ipam::pools::{Family, Pool, Pools};
use serde_json::Value;

pub use placement::{Placement, Placements};

/// A pool that was read.
#[derive(Clone, Debug)]
pub struct KnownPool {
    /// The object.
    pub object: AddressPool,
    /// Where its addresses are announced.
    pub placement: Placement,
    is_internal: bool,
    namespaces: LabelSelector,
    services: LabelSelector,
}

/// What is wrong with a pool that came past the API's validation, as in a cluster that knows its schema only. The
/// pool is not used until it is changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("AddressPool {name:?} cannot be used: {field}: {fault}")]
pub struct UnusablePool {
    name: String,
    field: String,
    fault: String,
}

impl UnusablePool {
    fn of(pool: &AddressPool, field: &str, fault: String) -> Self {
        Self {
            name: pool.metadata.name.clone(),
            field: field.to_owned(),
            fault,
        }
    }
}

impl KnownPool {
    /// Reads a pool; with its addresses, as the book takes them.
    ///
    /// # Errors
    /// See [`UnusablePool`].
    pub fn read(object: AddressPool) -> Result<(Self, Pool), UnusablePool> {
        let spec = &object.spec;
        let path = |field: &str| Path::new("spec").child(field);
        let selector = |field: &str, said: &Option<Value>| match said {
            None => Ok(LabelSelector::default()),
            Some(said) => selector(&object, &path(field), said),
        };
        let namespaces = selector("namespaceSelector", &spec.namespace_selector)?;
        let services = selector("serviceSelector", &spec.service_selector)?;
        let blocks = blocks(&object)?.into_iter();
        let pool = Pool {
            blocks: blocks.map(|block| block.first()..=block.last()).collect(),
            is_automatic: spec.auto_assign.unwrap_or(true),
            priority: spec.priority,
            avoids_edges: spec.avoid_buggy_ips,
        };
        let this = Self {
            is_internal: spec.scope == "Internal",
            placement: Placement::read(&object)?,
            namespaces,
            services,
            object,
        };
        Ok((this, pool))
    }

    /// Whether a Service in a namespace with these labels may use the pool.
    fn is_for(&self, service: &Service, is_internal: bool, namespace: &Labels) -> bool {
        let labels = &service.metadata.labels;
        self.is_internal == is_internal
            && self.services.matches(|key| labels.get(key).map(String::as_str))
            && self
                .namespaces
                .matches(|key| namespace.get(key).map(String::as_str))
    }
}

/// The addresses of a pool.
fn blocks(pool: &AddressPool) -> Result<Vec<AddressBlock>, UnusablePool> {
    let addresses = pool.spec.addresses.iter();
    let blocks = addresses.map(|text| {
        let block = text.parse();
        block.map_err(|fault: BlockError| {
            UnusablePool::of(pool, "spec.addresses", format!("{text:?} {fault}"))
        })
    });
    blocks.collect()
}

/// A selector of a pool, which stands at `path`.
fn selector(pool: &AddressPool, path: &Path, said: &Value) -> Result<LabelSelector, UnusablePool> {
    LabelSelector::from_object(path, said).map_err(|faults| {
        let faults: Vec<String> = faults.into_iter().map(|fault| fault.message).collect();
        UnusablePool::of(pool, path.as_str(), faults.join("; "))
    })
}

/// The pools that a Service may use.
pub fn eligible(
    pools: &BTreeMap<String, KnownPool>,
    service: &Service,
    is_internal: bool,
    namespace: &Labels,
) -> BTreeSet<Arc<str>> {
    let mine = pools
        .iter()
        .filter(|(_, pool)| pool.is_for(service, is_internal, namespace));
    mine.map(|(name, _)| name.as_str().into()).collect()
}

/// What `status.usage` of a pool should say.
pub fn usage(book: &Pools, name: &str) -> Vec<AddressPoolUsage> {
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    [Family::V4, Family::V6]
        .into_iter()
        .filter_map(|family| {
            let (total, assigned) = book.usage(name, family)?;
            Some(AddressPoolUsage {
                family: family.name().to_owned(),
                total: count(total),
                assigned: count(assigned),
            })
        })
        .collect()
}
