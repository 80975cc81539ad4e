//! Admission of changes of AddressPools: a pool does not lose addresses that Services have, by deletion or by an update.
//! The assigner would withdraw them at once, and DNS records and firewalls would lead to whichever Service gets them
//! next. An annotation of the pool permits the withdrawal.

use std::net::IpAddr;

use api::address_pool::AddressBlock;
use api::kind::{self, Kind};
use api::tree::{child, items, text};
use serde_json::Value;
use store::Index;

use super::Attempt;
use super::assigned_addresses::assigned_addresses;
use crate::failure::Failure;
use crate::request::route::Target;

/// Annotation of a pool that permits the withdrawal of addresses in use.
const PERMISSION: &str = "portolan.dev/withdraw-addresses";
/// Annotation of a Service with the pool of its addresses.
const POOL_OF_SERVICE: &str = "metallb.io/ip-allocated-from-pool";
/// Addresses that the message names; it counts the others.
const NAMED_MAX: usize = 3;

/// Admits an update of a pool.
pub(super) fn admit_update(index: &Index, attempt: &Attempt<'_>, pool: &Value) -> Result<(), Failure> {
    let Some(stored) = attempt.stored.filter(|_| !permits_withdrawal(pool)) else {
        return Ok(());
    };
    let has_moved = scope(stored) != scope(pool) || has_node_addresses(stored) != has_node_addresses(pool);
    let remaining = if has_moved { Vec::new() } else { blocks(pool) };
    check(index, attempt.target, stored, &remaining, has_moved)
}

/// Admits the deletion of a pool.
pub(super) fn admit_delete(index: &Index, target: &Target) -> Result<(), Failure> {
    let entry = index.get(&target.kind.store_key("", target.name()));
    let stored = entry.and_then(|entry| serde_json::from_slice::<Value>(&entry.value).ok());
    match stored.filter(|pool| !permits_withdrawal(pool)) {
        Some(stored) => check(index, target, &stored, &[], true),
        None => Ok(()),
    }
}

/// Fails if Services have addresses of the pool that are not among the remaining ones, nor in another pool.
fn check(
    index: &Index,
    target: &Target,
    stored: &Value,
    remaining: &[AddressBlock],
    loses_nodes: bool,
) -> Result<(), Failure> {
    let name = target.name();
    let before = blocks(stored);
    let others = other_blocks(index, target.kind, name)?;
    let is_lost = |address: &IpAddr| {
        let is_in = |blocks: &[AddressBlock]| blocks.iter().any(|block| block.contains(*address));
        is_in(&before) && !is_in(remaining) && !is_in(&others)
    };
    let loses_nodes = loses_nodes && has_node_addresses(stored);
    let mut in_use = Vec::new();
    for service in objects(index, kind::find("", "v1", "services"))? {
        let metadata = child(&service, "metadata");
        let is_of_nodes = loses_nodes && text(child(metadata, "annotations"), POOL_OF_SERVICE) == name;
        let assigned = assigned_addresses(&service).unwrap_or_default();
        let ips = assigned.iter().filter_map(|entry| text(entry, "ip").parse().ok());
        let lost = ips.filter(|ip| is_of_nodes || is_lost(ip));
        let service = format!("{}/{}", text(metadata, "namespace"), text(metadata, "name"));
        in_use.extend(lost.map(|ip| format!("{ip} (Service {service})")));
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
    Err(Failure::forbidden(target.kind, name, &message))
}

fn permits_withdrawal(pool: &Value) -> bool {
    text(child(child(pool, "metadata"), "annotations"), PERMISSION) == "true"
}

fn scope(pool: &Value) -> &str {
    text(child(pool, "spec"), "scope")
}

fn has_node_addresses(pool: &Value) -> bool {
    !child(child(pool, "spec"), "nodeAddresses").is_null()
}

/// Address blocks of a pool. Validation rejects invalid ones; an older pool may have some, which assign no address.
fn blocks(pool: &Value) -> Vec<AddressBlock> {
    let texts = items(child(pool, "spec"), "addresses").iter();
    texts.filter_map(|text| text.as_str()?.parse().ok()).collect()
}

/// Address blocks of all other pools.
fn other_blocks(index: &Index, pools: &'static Kind, name: &str) -> Result<Vec<AddressBlock>, Failure> {
    let all = objects(index, Some(pools))?;
    let others = all
        .iter()
        .filter(|pool| text(child(pool, "metadata"), "name") != name);
    Ok(others.flat_map(blocks).collect())
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
