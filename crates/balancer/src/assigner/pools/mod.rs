//! Address pools after parsing: addresses, eligible Services, and the nodes and links that announce the addresses.

mod placement;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use api::address_pool::{AddressBlock, BlockError};
use api::field::Path;
use api::object::{AddressPool, AddressPoolUsage, Labels, ObjectMeta, Service};
use api::selector::LabelSelector;
use ipam::pools::{Family, Pool, Pools};
use serde_json::Value;

use super::node_pools::NodeAddressType;
use crate::metallb::objects::{IpAddressPool, IpAddressPoolStatus, ServiceAllocation};
use crate::metallb::{Configuration, parse_selector};
use crate::two_tier;

use placement::matches_any;
pub use placement::{Placement, Placements};

/// Priority of an IPAddressPool for some Services that states none. MetalLB uses all such pools before those for all
/// Services, which have the default priority of AddressPools (LBM-01).
const PINNED_PRIORITY: i64 = 1 << 33;

/// Pool with parsed selectors.
#[derive(Clone, Debug)]
pub(super) struct ParsedPool {
    /// Object as stored.
    pub(super) source: PoolSource,
    /// Nodes and links that announce the addresses.
    pub(super) placement: Placement,
    /// Type of the addresses of a pool of node addresses.
    pub(super) node_addresses: Option<NodeAddressType>,
    /// True for pools of internal Services, false for pools of others, `None` for pools of both.
    is_internal: Option<bool>,
    /// Names of the namespaces; a namespace may match a selector instead.
    namespace_names: BTreeSet<String>,
    namespaces: Vec<LabelSelector>,
    services: Vec<LabelSelector>,
}

/// Object that defines a pool.
#[derive(Clone, Debug)]
pub(super) enum PoolSource {
    /// Portolan's kind.
    AddressPool(AddressPool),
    /// MetalLB's kind.
    MetalLb(IpAddressPool),
}

impl PoolSource {
    /// Returns the metadata of the object.
    pub(super) fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::AddressPool(pool) => &pool.metadata,
            Self::MetalLb(pool) => &pool.metadata,
        }
    }

    /// Returns the description of the fields that select the announcing nodes, before the name of the pool.
    pub(super) fn node_selectors(&self) -> &'static str {
        match self {
            Self::AddressPool(_) => "nodeSelectors of AddressPool",
            Self::MetalLb(_) => "L2Advertisements of IPAddressPool",
        }
    }
}

/// Invalid pool. API servers that check only the schema accept such a pool. The pool is ignored until it is changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("AddressPool {name:?} cannot be used: {field}: {reason}")]
pub struct InvalidPool {
    name: String,
    field: String,
    reason: String,
}

impl InvalidPool {
    fn new(name: &str, field: &str, reason: String) -> Self {
        Self {
            name: name.to_owned(),
            field: field.to_owned(),
            reason,
        }
    }
}

impl ParsedPool {
    /// Parses an AddressPool. The second value contains its addresses for allocation.
    ///
    /// # Errors
    /// See [`InvalidPool`].
    pub(super) fn parse(object: AddressPool) -> Result<(Self, Pool), InvalidPool> {
        let (spec, name) = (&object.spec, &object.metadata.name);
        let path = |field: &str| Path::new("spec").child(field);
        let selectors = |field: &str, value: &Option<Value>| {
            let selectors = value.iter().map(|value| selector(name, &path(field), value));
            selectors.collect::<Result<Vec<_>, _>>()
        };
        let namespaces = selectors("namespaceSelector", &spec.namespace_selector)?;
        let services = selectors("serviceSelector", &spec.service_selector)?;
        let pool = Pool {
            blocks: ranges(&blocks(name, &spec.addresses)?),
            is_automatic: spec.auto_assign.unwrap_or(true),
            priority: spec.priority,
            avoids_edges: spec.avoid_buggy_ips,
        };
        let this = Self {
            node_addresses: node_address_type(&object)?,
            is_internal: Some(spec.scope == "Internal"),
            placement: Placement::parse(&object)?,
            namespace_names: BTreeSet::new(),
            namespaces,
            services,
            source: PoolSource::AddressPool(object),
        };
        Ok((this, pool))
    }

    /// Parses an IPAddressPool, with the L2Advertisements of the configuration.
    ///
    /// # Errors
    /// See [`InvalidPool`].
    pub(super) fn of_metallb(
        object: &IpAddressPool,
        configuration: &Configuration,
    ) -> Result<(Self, Pool), InvalidPool> {
        let (spec, name) = (&object.spec, &object.metadata.name);
        let no_restriction = ServiceAllocation::default();
        let allocation = spec.service_allocation.as_ref();
        let services = allocation.unwrap_or(&no_restriction);
        let selectors = |field: &str, values: &[Value]| {
            let field = format!("serviceAllocation.{field}");
            let selectors = values.iter().map(|value| parse_selector(&field, value));
            let selectors: Result<Vec<_>, _> = selectors.collect();
            selectors.map_err(|reason| InvalidPool::new(name, &format!("spec.{field}"), reason))
        };
        let pool = Pool {
            blocks: ranges(&metallb_blocks(object)?),
            is_automatic: spec.auto_assign.unwrap_or(true),
            priority: metallb_priority(object),
            avoids_edges: spec.avoid_buggy_ips,
        };
        let this = Self {
            node_addresses: None,
            is_internal: None,
            placement: Placement::of_metallb(object, configuration)?,
            namespace_names: services.namespaces.iter().cloned().collect(),
            namespaces: selectors("namespaceSelectors", &services.namespace_selectors)?,
            services: selectors("serviceSelectors", &services.service_selectors)?,
            source: PoolSource::MetalLb(object.clone()),
        };
        Ok((this, pool))
    }

    /// Returns true if Services that request neither a pool nor an address may use the pool.
    pub(super) fn is_automatic(&self) -> bool {
        match &self.source {
            PoolSource::AddressPool(pool) => pool.spec.auto_assign.unwrap_or(true),
            PoolSource::MetalLb(pool) => pool.spec.auto_assign.unwrap_or(true),
        }
    }

    /// Returns the priority among all pools: higher first.
    pub(super) fn priority(&self) -> i64 {
        match &self.source {
            PoolSource::AddressPool(pool) => pool.spec.priority,
            PoolSource::MetalLb(pool) => metallb_priority(pool),
        }
    }

    /// Returns true if both pools have the same addresses, Services and announcements.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        let have_same_spec = match (&self.source, &other.source) {
            (PoolSource::AddressPool(this), PoolSource::AddressPool(other)) => this.spec == other.spec,
            (PoolSource::MetalLb(this), PoolSource::MetalLb(other)) => this.spec == other.spec,
            _ => false,
        };
        have_same_spec
            && self.placement == other.placement
            && self.requests_two_tier() == other.requests_two_tier()
    }

    /// Returns true if the Services with addresses of the pool have two-tier forwarding, unless they decline.
    pub(super) fn requests_two_tier(&self) -> bool {
        two_tier::requested_by_pool(self.source.metadata())
    }

    /// Returns true if a Service in a namespace with these labels may use the pool.
    fn allows(&self, service: &Service, is_internal: bool, namespace: &Labels) -> bool {
        let meta = &service.metadata;
        let is_in_namespace = if self.namespace_names.is_empty() {
            matches_any(&self.namespaces, namespace)
        } else {
            self.namespace_names.contains(&meta.namespace)
                || (!self.namespaces.is_empty() && matches_any(&self.namespaces, namespace))
        };
        self.is_internal.is_none_or(|scope| scope == is_internal)
            && is_in_namespace
            && matches_any(&self.services, &meta.labels)
    }
}

/// Returns the type of the addresses of a pool of node addresses; `None` for other pools.
fn node_address_type(pool: &AddressPool) -> Result<Option<NodeAddressType>, InvalidPool> {
    let (spec, name) = (&pool.spec, &pool.metadata.name);
    let Some(nodes) = &spec.node_addresses else {
        if spec.addresses.is_empty() {
            let reason = "expected addresses or nodeAddresses, found neither".to_owned();
            return Err(InvalidPool::new(name, "spec", reason));
        }
        return Ok(None);
    };
    if !spec.addresses.is_empty() {
        let reason = "expected addresses or nodeAddresses, found both".to_owned();
        return Err(InvalidPool::new(name, "spec", reason));
    }
    NodeAddressType::parse(&nodes.kind).map(Some).ok_or_else(|| {
        let reason = format!(
            "expected InternalIP, ExternalIP or ExternalOrInternalIP, found {:?}",
            nodes.kind
        );
        InvalidPool::new(name, "spec.nodeAddresses.type", reason)
    })
}

/// Returns the priority of an IPAddressPool on the scale of AddressPools.
fn metallb_priority(pool: &IpAddressPool) -> i64 {
    match pool
        .spec
        .service_allocation
        .as_ref()
        .map(|services| services.priority)
    {
        None => 0,
        Some(priority @ 1..) => PINNED_PRIORITY.saturating_mul(2).saturating_sub(priority),
        Some(_) => PINNED_PRIORITY,
    }
}

/// Returns the address blocks of a pool.
fn blocks(name: &str, addresses: &[String]) -> Result<Vec<AddressBlock>, InvalidPool> {
    let blocks = addresses.iter().map(|text| {
        let block = text.parse();
        block.map_err(|error: BlockError| {
            InvalidPool::new(name, "spec.addresses", format!("{text:?} {error}"))
        })
    });
    blocks.collect()
}

/// Returns the address blocks of an IPAddressPool. As MetalLB, it ignores host bits of a CIDR.
fn metallb_blocks(pool: &IpAddressPool) -> Result<Vec<AddressBlock>, InvalidPool> {
    let addresses = pool.spec.addresses.iter().map(|text| {
        let text = text.trim();
        match text.parse::<AddressBlock>() {
            Err(BlockError::HostBits(network)) => network.to_string(),
            _ => text.to_owned(),
        }
    });
    blocks(&pool.metadata.name, &addresses.collect::<Vec<_>>())
}

fn ranges(blocks: &[AddressBlock]) -> Vec<RangeInclusive<IpAddr>> {
    blocks.iter().map(|block| block.first()..=block.last()).collect()
}

/// Parses the selector at `path` of a pool.
fn selector(name: &str, path: &Path, value: &Value) -> Result<LabelSelector, InvalidPool> {
    LabelSelector::from_object(path, value).map_err(|errors| {
        let errors: Vec<String> = errors.into_iter().map(|error| error.message).collect();
        InvalidPool::new(name, path.as_str(), errors.join("; "))
    })
}

/// Returns the names of the pools that a Service may use.
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

/// Returns the usage of a pool for its status.
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

/// Returns the usage of a pool of node addresses: addresses of ready nodes, and those at which Services have ports.
pub(super) fn node_usage(all: &BTreeSet<IpAddr>, used: &BTreeSet<IpAddr>) -> Vec<AddressPoolUsage> {
    let count = |addresses: &BTreeSet<IpAddr>, family: Family| {
        let family_addresses = addresses.iter().filter(|address| Family::of(**address) == family);
        i64::try_from(family_addresses.count()).unwrap_or(i64::MAX)
    };
    let families = [Family::V4, Family::V6]
        .into_iter()
        .map(|family| AddressPoolUsage {
            family: family.name().to_owned(),
            total: count(all, family),
            assigned: count(used, family),
        });
    families
        .filter(|usage| usage.total > 0 || usage.assigned > 0)
        .collect()
}

/// Returns the status of an IPAddressPool with this usage.
pub(super) fn metallb_status(usage: &[AddressPoolUsage]) -> IpAddressPoolStatus {
    let of = |family: Family| usage.iter().find(|usage| usage.family == family.name());
    let assigned = |family| of(family).map_or(0, |usage| usage.assigned);
    let available = |family| of(family).map_or(0, |usage| usage.total - usage.assigned);
    IpAddressPoolStatus {
        assigned_ipv4: assigned(Family::V4),
        assigned_ipv6: assigned(Family::V6),
        available_ipv4: available(Family::V4),
        available_ipv6: available(Family::V6),
    }
}
