//! AddressPools after parsing: addresses, eligible Services, and the nodes and links that announce the addresses.

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

/// AddressPool with parsed selectors.
#[derive(Clone, Debug)]
pub(super) struct ParsedPool {
    /// Object as stored.
    pub(super) object: AddressPool,
    /// Nodes and links that announce the addresses.
    pub(super) placement: Placement,
    is_internal: bool,
    namespaces: LabelSelector,
    services: LabelSelector,
}

/// Invalid AddressPool. API servers that know only the schema accept it. The pool is ignored until it is changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("AddressPool {name:?} cannot be used: {field}: {reason}")]
pub struct InvalidPool {
    name: String,
    field: String,
    reason: String,
}

impl InvalidPool {
    fn new(pool: &AddressPool, field: &str, reason: String) -> Self {
        Self {
            name: pool.metadata.name.clone(),
            field: field.to_owned(),
            reason,
        }
    }
}

impl ParsedPool {
    /// Parses a pool. The second value contains its addresses for allocation.
    ///
    /// # Errors
    /// See [`InvalidPool`].
    pub(super) fn parse(object: AddressPool) -> Result<(Self, Pool), InvalidPool> {
        let spec = &object.spec;
        let path = |field: &str| Path::new("spec").child(field);
        let selector = |field: &str, value: &Option<Value>| match value {
            None => Ok(LabelSelector::default()),
            Some(value) => selector(&object, &path(field), value),
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
            placement: Placement::parse(&object)?,
            namespaces,
            services,
            object,
        };
        Ok((this, pool))
    }

    /// Returns true if a Service in a namespace with these labels may use the pool.
    fn allows(&self, service: &Service, is_internal: bool, namespace: &Labels) -> bool {
        let labels = &service.metadata.labels;
        self.is_internal == is_internal
            && self.services.matches(|key| labels.get(key).map(String::as_str))
            && self
                .namespaces
                .matches(|key| namespace.get(key).map(String::as_str))
    }
}

/// Address blocks of a pool.
fn blocks(pool: &AddressPool) -> Result<Vec<AddressBlock>, InvalidPool> {
    let addresses = pool.spec.addresses.iter();
    let blocks = addresses.map(|text| {
        let block = text.parse();
        block.map_err(|error: BlockError| {
            InvalidPool::new(pool, "spec.addresses", format!("{text:?} {error}"))
        })
    });
    blocks.collect()
}

/// Parses the selector at `path` of a pool.
fn selector(pool: &AddressPool, path: &Path, value: &Value) -> Result<LabelSelector, InvalidPool> {
    LabelSelector::from_object(path, value).map_err(|errors| {
        let errors: Vec<String> = errors.into_iter().map(|error| error.message).collect();
        InvalidPool::new(pool, path.as_str(), errors.join("; "))
    })
}

/// Names of the pools that a Service may use.
pub(super) fn eligible(
    pools: &BTreeMap<String, ParsedPool>,
    service: &Service,
    is_internal: bool,
    namespace: &Labels,
) -> BTreeSet<Arc<str>> {
    let eligible = pools
        .iter()
        .filter(|(_, pool)| pool.allows(service, is_internal, namespace));
    eligible.map(|(name, _)| name.as_str().into()).collect()
}

/// Usage of a pool for its status.
pub(super) fn usage(allocations: &Pools, name: &str) -> Vec<AddressPoolUsage> {
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    [Family::V4, Family::V6]
        .into_iter()
        .filter_map(|family| {
            let (total, assigned) = allocations.usage(name, family)?;
            Some(AddressPoolUsage {
                family: family.name().to_owned(),
                total: count(total),
                assigned: count(assigned),
            })
        })
        .collect()
}
