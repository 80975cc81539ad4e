//! Rules of AddressPools (`portolan.dev/v1alpha1`): the addresses for Services of type LoadBalancer, and the nodes
//! and links that announce them.

mod block;
mod link;

pub use block::{AddressBlock, BlockError};
pub use link::{LinkPattern, LinkPatternError};

use serde_json::{Value, json};

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm};
use crate::machinery::selector::LabelSelector;
use crate::machinery::tree::{
    child, is_set, items, number, object_mut, omit_null, set, set_or_clear, text, texts,
};

/// Maximum number of entries of `spec.addresses`. People write pools, and every lookup of an address scans all entries.
pub const ADDRESSES_MAX: usize = 256;
/// Maximum number of entries of `spec.nodeSelectors` and of `spec.interfaces`. Every node evaluates all of them.
pub const SELECTORS_MAX: usize = 64;
/// Valid scopes; the first is the default.
pub const SCOPES: [&str; 2] = ["External", "Internal"];
/// Valid types of node addresses; the first is the default.
pub const NODE_ADDRESS_TYPES: [&str; 3] = ["InternalIP", "ExternalIP", "ExternalOrInternalIP"];
/// Bound of the priority, positive and negative.
const PRIORITY_MAX: i64 = 1_000_000;

/// Sets defaults and drops empty fields.
pub fn default_on_write(pool: &mut Value) {
    metadata::omit_empty(pool);
    let Some(spec) = pool.get_mut("spec").filter(|spec| spec.is_object()) else {
        return;
    };
    omit_null(
        spec,
        &[
            "addresses",
            "nodeAddresses",
            "autoAssign",
            "priority",
            "scope",
            "avoidBuggyIPs",
            "namespaceSelector",
            "serviceSelector",
            "nodeSelectors",
            "interfaces",
        ],
    );
    let spec = object_mut(pool, "spec");
    for (field, default) in [
        ("autoAssign", json!(true)),
        ("avoidBuggyIPs", json!(false)),
        ("priority", json!(0)),
        ("scope", json!(SCOPES[0])),
    ] {
        spec.entry(field).or_insert(default);
    }
    if let Some(nodes) = spec.get_mut("nodeAddresses").and_then(Value::as_object_mut) {
        nodes.entry("type").or_insert(json!(NODE_ADDRESS_TYPES[0]));
    }
}

/// Prepares a new pool: its status is empty.
pub fn prepare_create(pool: &mut Value) {
    set(pool, "status", json!({}));
}

/// Prepares an update: the status stays, and a changed spec increments the generation.
pub fn prepare_update(new: &mut Value, old: &Value) {
    set_or_clear(new, "status", old.get("status").cloned());
    if child(new, "spec") != child(old, "spec") {
        let generation = number(child(old, "metadata"), "generation");
        object_mut(new, "metadata").insert("generation".to_owned(), json!(generation + 1));
    }
}

/// Validates a new pool.
pub fn validate(pool: &Value) -> FieldErrors {
    let mut errors = metadata::validate(pool, NameForm::DnsSubdomain, false);
    validate_spec(&mut errors, child(pool, "spec"));
    errors
}

/// Validates an update. All of the spec may change; Services lose addresses that the pool no longer contains.
pub fn validate_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    validate_spec(&mut errors, child(new, "spec"));
    errors
}

fn validate_spec(errors: &mut FieldErrors, spec: &Value) {
    let path = Path::new("spec");
    if is_set(spec, "nodeAddresses") {
        validate_node_addresses(errors, spec, &path);
    } else {
        validate_addresses(errors, &texts(spec, "addresses"), &path.child("addresses"));
    }
    let scope = text(spec, "scope");
    if !SCOPES.contains(&scope) {
        errors.push(FieldError::not_supported(&path.child("scope"), scope, &SCOPES));
    }
    let priority = number(spec, "priority");
    if !(-PRIORITY_MAX..=PRIORITY_MAX).contains(&priority) {
        let fault = format!("must be between -{PRIORITY_MAX} and {PRIORITY_MAX}, inclusive");
        errors.push(FieldError::invalid(&path.child("priority"), priority, fault));
    }
    for field in ["namespaceSelector", "serviceSelector"] {
        if is_set(spec, field)
            && let Err(faults) = LabelSelector::from_object(&path.child(field), child(spec, field))
        {
            errors.extend(faults);
        }
    }
    validate_nodes(errors, items(spec, "nodeSelectors"), &path.child("nodeSelectors"));
    validate_links(errors, &texts(spec, "interfaces"), &path.child("interfaces"));
}

/// Validates a pool of node addresses. Nodes already have their addresses, so none is announced.
fn validate_node_addresses(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    for field in ["addresses", "interfaces"] {
        if !items(spec, field).is_empty() {
            errors.push(FieldError::forbidden(
                &path.child(field),
                "must not be set with nodeAddresses",
            ));
        }
    }
    let address_type = text(child(spec, "nodeAddresses"), "type");
    if !NODE_ADDRESS_TYPES.contains(&address_type) {
        let path = path.child("nodeAddresses").child("type");
        errors.push(FieldError::not_supported(
            &path,
            address_type,
            &NODE_ADDRESS_TYPES,
        ));
    }
}

fn validate_nodes(errors: &mut FieldErrors, selectors: &[Value], path: &Path) {
    if selectors.len() > SELECTORS_MAX {
        errors.push(FieldError::too_many(path, selectors.len(), SELECTORS_MAX));
        return;
    }
    for (index, selector) in selectors.iter().enumerate() {
        if let Err(faults) = LabelSelector::from_object(&path.index(index), selector) {
            errors.extend(faults);
        }
    }
}

fn validate_links(errors: &mut FieldErrors, names: &[&str], path: &Path) {
    if names.len() > SELECTORS_MAX {
        errors.push(FieldError::too_many(path, names.len(), SELECTORS_MAX));
        return;
    }
    for (index, name) in names.iter().enumerate() {
        if let Err(fault) = name.parse::<LinkPattern>() {
            errors.push(FieldError::invalid(&path.index(index), *name, fault));
        } else if names[..index].contains(name) {
            errors.push(FieldError::duplicate(&path.index(index), *name));
        }
    }
}

fn validate_addresses(errors: &mut FieldErrors, addresses: &[&str], path: &Path) {
    if addresses.is_empty() {
        errors.push(FieldError::required(path, "at least one CIDR or range is needed"));
    }
    if addresses.len() > ADDRESSES_MAX {
        errors.push(FieldError::too_many(path, addresses.len(), ADDRESSES_MAX));
        return;
    }
    let mut blocks: Vec<AddressBlock> = Vec::new();
    for (index, text) in addresses.iter().enumerate() {
        match text.parse::<AddressBlock>() {
            Ok(block) if blocks.iter().any(|other| other.overlaps(&block)) => {
                let fault = "overlaps with another entry";
                errors.push(FieldError::invalid(&path.index(index), *text, fault));
            }
            Ok(block) => blocks.push(block),
            Err(fault) => errors.push(FieldError::invalid(&path.index(index), *text, fault)),
        }
    }
}

#[cfg(test)]
mod tests;
