//! Admission of changes of AddressPools: a pool does not lose addresses that Services have, by deletion or by an
//! update. The assigner would withdraw the addresses at once. DNS records and firewalls would then apply to the next
//! Services that get them. An annotation of the pool permits the withdrawal.
//!
//! A Service keeps an address while a pool that it may use contains it, as in the assigner. It may use a pool of its scope
//! if the selectors of the pool match the Service and its namespace.

use std::net::IpAddr;

use api::address_pool::{AddressBlock, SCOPES};
use api::field::Path;
use api::kind::{self, Kind};
use api::selector::LabelSelector;
use api::tree::{child, items, text};
use serde_json::Value;
use store::Index;

use super::WriteAttempt;
use super::assigned_addresses::assigned_addresses;
use crate::failure::Failure;
use crate::request::route::Target;

/// Annotation of a pool that permits the withdrawal of addresses in use.
const PERMISSION: &str = "portolan.dev/withdraw-addresses";
/// Annotation of a Service with the pools of its addresses, separated by commas.
const POOLS_OF_SERVICE: &str = "metallb.io/ip-allocated-from-pool";
/// Maximum number of addresses that the message names; it counts the others.
const NAMED_MAX: usize = 3;

/// Pool with the rules that select its Services.
struct Pool {
    name: String,
    scope: String,
    /// Validation rejects invalid blocks; an older pool may have some, which assign no address.
    blocks: Vec<AddressBlock>,
    has_node_addresses: bool,
    namespaces: Selection,
    services: Selection,
}

/// Objects that a pool selects.
enum Selection {
    All,
    Matching(LabelSelector),
    /// The selector is invalid. Validation rejects such; the assigner ignores an older pool with one.
    Invalid,
}

/// Service with its assigned addresses.
struct Holder {
    service: Value,
    namespace: Value,
    addresses: Vec<IpAddr>,
    /// Names of the pools that the assigner recorded.
    pools: Vec<String>,
}

/// Admits an update of a pool.
pub(super) fn admit_update(index: &Index, attempt: &WriteAttempt<'_>, pool: &Value) -> Result<(), Failure> {
    match attempt.stored.filter(|_| !permits_withdrawal(pool)) {
        Some(stored) => check(index, attempt.target, &Pool::of(stored), Some(&Pool::of(pool))),
        None => Ok(()),
    }
}

/// Admits the deletion of a pool.
pub(super) fn admit_delete(index: &Index, target: &Target) -> Result<(), Failure> {
    let entry = index.get(&target.kind.store_key("", target.name()));
    let stored = entry.and_then(|entry| serde_json::from_slice::<Value>(&entry.value).ok());
    match stored.filter(|pool| !permits_withdrawal(pool)) {
        Some(stored) => check(index, target, &Pool::of(&stored), None),
        None => Ok(()),
    }
}

/// Fails if Services have addresses of the stored pool that neither the updated pool nor another one provides for them.
fn check(index: &Index, target: &Target, stored: &Pool, updated: Option<&Pool>) -> Result<(), Failure> {
    let pools: Vec<Pool> = objects(index, Some(target.kind))?.iter().map(Pool::of).collect();
    let others: Vec<&Pool> = pools.iter().filter(|pool| pool.name != stored.name).collect();
    let mut in_use = Vec::new();
    for service in objects(index, kind::find("", "v1", "services"))? {
        let Some(holder) = Holder::of(index, service) else {
            continue;
        };
        // Without a record, the pool that changes is the one that assigned the addresses.
        let recorded = pools.iter().find(|pool| holder.pools.contains(&pool.name));
        let scope = &recorded.unwrap_or(stored).scope;
        let has = |pool: &Pool, address| pool.selects(&holder, scope) && pool.contains(address);
        let loses_nodes = stored.has_node_addresses
            && holder.pools.contains(&stored.name)
            && updated.is_none_or(|pool| !pool.has_node_addresses || !pool.selects(&holder, scope));
        let is_lost = |address: &IpAddr| {
            let remains = updated.is_some_and(|pool| has(pool, *address));
            has(stored, *address) && !remains && !others.iter().any(|pool| has(pool, *address))
        };
        let lost = holder.addresses.iter().filter(|ip| loses_nodes || is_lost(ip));
        let name = holder.name();
        in_use.extend(lost.map(|ip| format!("{ip} (Service {name})")));
    }
    if in_use.is_empty() {
        return Ok(());
    }
    let further = in_use.len().saturating_sub(NAMED_MAX);
    let mut named = in_use.into_iter().take(NAMED_MAX).collect::<Vec<_>>().join(", ");
    if further > 0 {
        named.push_str(&format!(" and {further} more"));
    }
    let message = format!(
        "Services have addresses of the pool that would be withdrawn at once: {named}; delete these Services or move them \
         to another pool first, or permit the withdrawal by the annotation {PERMISSION}=true of the pool"
    );
    Err(Failure::forbidden(target.kind, &stored.name, &message))
}

fn permits_withdrawal(pool: &Value) -> bool {
    text(child(child(pool, "metadata"), "annotations"), PERMISSION) == "true"
}

impl Pool {
    fn of(pool: &Value) -> Self {
        let spec = child(pool, "spec");
        let blocks = items(spec, "addresses").iter();
        Self {
            name: text(child(pool, "metadata"), "name").to_owned(),
            scope: match text(spec, "scope") {
                "" => SCOPES[0].to_owned(),
                scope => scope.to_owned(),
            },
            blocks: blocks.filter_map(|text| text.as_str()?.parse().ok()).collect(),
            has_node_addresses: !child(spec, "nodeAddresses").is_null(),
            namespaces: Selection::of(child(spec, "namespaceSelector")),
            services: Selection::of(child(spec, "serviceSelector")),
        }
    }

    /// Returns true if a Service of a scope may use the pool.
    fn selects(&self, holder: &Holder, scope: &str) -> bool {
        self.scope == scope
            && self.namespaces.matches(&holder.namespace)
            && self.services.matches(&holder.service)
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.blocks.iter().any(|block| block.contains(address))
    }
}

impl Selection {
    fn of(selector: &Value) -> Self {
        if selector.is_null() {
            return Self::All;
        }
        match LabelSelector::from_object(&Path::new("spec"), selector) {
            Ok(selector) => Self::Matching(selector),
            Err(_) => Self::Invalid,
        }
    }

    fn matches(&self, object: &Value) -> bool {
        match self {
            Self::All => true,
            Self::Matching(selector) => selector.matches_object(object),
            Self::Invalid => false,
        }
    }
}

impl Holder {
    /// Returns the holder that a Service is; `None` if it has no assigned address.
    fn of(index: &Index, service: Value) -> Option<Self> {
        let assigned = assigned_addresses(&service)?;
        let addresses = assigned.iter().filter_map(|entry| text(entry, "ip").parse().ok());
        let addresses: Vec<IpAddr> = addresses.collect();
        if addresses.is_empty() {
            return None;
        }
        let metadata = child(&service, "metadata");
        let namespaces = kind::find("", "v1", "namespaces")?;
        let stored = index.get(&namespaces.store_key("", text(metadata, "namespace")));
        let namespace = stored.and_then(|entry| serde_json::from_slice(&entry.value).ok());
        let recorded = text(child(metadata, "annotations"), POOLS_OF_SERVICE);
        let pools = recorded.split(',').map(|name| name.trim().to_owned()).collect();
        Some(Self {
            namespace: namespace.unwrap_or_default(),
            addresses,
            pools,
            service,
        })
    }

    fn name(&self) -> String {
        let metadata = child(&self.service, "metadata");
        format!("{}/{}", text(metadata, "namespace"), text(metadata, "name"))
    }
}

fn objects(index: &Index, kind: Option<&'static Kind>) -> Result<Vec<Value>, Failure> {
    let kind = kind.ok_or_else(Failure::no_such_path)?;
    let listing = index.list(&kind.store_prefix(None), None, None, None);
    let listing = listing.map_err(|error| Failure::of_read(&error))?;
    let objects = listing.entries.iter();
    Ok(objects
        .filter_map(|entry| serde_json::from_slice(&entry.value).ok())
        .collect())
}
