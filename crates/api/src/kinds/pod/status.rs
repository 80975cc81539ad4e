//! Status of a Pod: fields that upstream serializes always, and validation (upstream's `ValidatePodStatusUpdate`).

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::ip;
use crate::machinery::metadata::push_faults;
use crate::machinery::names;
use crate::machinery::tree::{child, is_set, items, items_mut, number, omit_zero, set, text};

/// Lists of statuses of containers.
const CONTAINER_STATUS_LISTS: [&str; 3] = [
    "containerStatuses",
    "initContainerStatuses",
    "ephemeralContainerStatuses",
];

/// Other fields that upstream omits if they are empty.
const OMITTED_IF_EMPTY: [&str; 8] = [
    "observedGeneration",
    "phase",
    "message",
    "reason",
    "nominatedNodeName",
    "hostIP",
    "hostIPs",
    "resize",
];

const REPEATED_FAMILY: &str = "may specify no more than one IP for each IP family";

/// Drops empty fields, and sets those that each status of a container has.
pub(super) fn complete(status: &mut Value) {
    omit_zero(status, &OMITTED_IF_EMPTY);
    omit_zero(status, &CONTAINER_STATUS_LISTS);
    for list in CONTAINER_STATUS_LISTS {
        for container in items_mut(status, list) {
            complete_container_status(container);
        }
    }
}

fn complete_container_status(container: &mut Value) {
    if !container.is_object() {
        return;
    }
    for (field, value) in [
        ("name", json!("")),
        ("state", json!({})),
        ("lastState", json!({})),
        ("ready", json!(false)),
        ("restartCount", json!(0)),
        ("image", json!("")),
        ("imageID", json!("")),
    ] {
        if !is_set(container, field) {
            set(container, field, value);
        }
    }
    for state in ["state", "lastState"] {
        let Some(state) = container.get_mut(state) else {
            continue;
        };
        if let Some(running) = state.get_mut("running") {
            set_null_times(running, &["startedAt"]);
        }
        if let Some(terminated) = state.get_mut("terminated").filter(|state| state.is_object()) {
            set_null_times(terminated, &["startedAt", "finishedAt"]);
            if !is_set(terminated, "exitCode") {
                set(terminated, "exitCode", 0);
            }
        }
    }
}

/// Sets times that are absent to null.
fn set_null_times(tree: &mut Value, times: &[&str]) {
    for time in times {
        if tree.is_object() && !is_set(tree, time) {
            set(tree, time, Value::Null);
        }
    }
}

/// Validates the fields of a changed status.
pub(super) fn validate(errors: &mut FieldErrors, new: &Value, old: &Value) {
    let (status, before) = (child(new, "status"), child(old, "status"));
    let path = Path::new("status");
    validate_nominated_node(errors, new, before, &path.child("nominatedNodeName"));
    let generation = number(status, "observedGeneration");
    if generation < 0 {
        let fault = "must be a non-negative integer";
        errors.push(FieldError::invalid(
            &path.child("observedGeneration"),
            generation,
            fault,
        ));
    }
    validate_host_addresses(errors, status, before, &path.child("hostIPs"));
    let class = text(status, "qosClass");
    if is_set(before, "qosClass") && class != text(before, "qosClass") {
        let path = path.child("qosClass");
        errors.push(FieldError::invalid(&path, class, "field is immutable"));
    }
    for (index, condition) in items(status, "conditions").iter().enumerate() {
        let condition_type = text(condition, "type");
        // As upstream, with a capital letter.
        let path = path.child("conditions").index(index).child("Type");
        push_faults(
            errors,
            &path,
            condition_type,
            names::qualified_name(condition_type),
        );
    }
    validate_pod_addresses(errors, status, before, &path.child("podIPs"));
}

fn validate_nominated_node(errors: &mut FieldErrors, pod: &Value, before: &Value, path: &Path) {
    const FIELD: &str = "nominatedNodeName";
    let node = text(child(pod, "status"), FIELD);
    if node.is_empty() {
        return;
    }
    push_faults(errors, path, node, names::dns_subdomain(node));
    let is_bound = !text(child(pod, "spec"), "nodeName").is_empty();
    if is_bound && node != text(before, FIELD) {
        let detail = "may not be set on pods that are already bound to a node";
        errors.push(FieldError::forbidden(path, detail));
    }
}

/// Checks that the first address of the host is `hostIP`, and that the addresses are valid, at most one for each family.
fn validate_host_addresses(errors: &mut FieldErrors, status: &Value, before: &Value, path: &Path) {
    let addresses = addresses_of(status, "hostIPs");
    if let Some(first) = addresses.first()
        && *first != text(status, "hostIP")
    {
        let fault = "must be equal to `hostIP`";
        errors.push(FieldError::invalid(&path.index(0).child("ip"), *first, fault));
    }
    let existing: HashSet<&str> = addresses_of(before, "hostIPs").into_iter().collect();
    for (index, address) in addresses.iter().enumerate() {
        errors.extend(ip::validate(&path.index(index), address, &existing));
    }
    validate_families(errors, &addresses, path);
}

/// Checks that the addresses of the Pod are valid and distinct, and that there is at most one for each family.
fn validate_pod_addresses(errors: &mut FieldErrors, status: &Value, before: &Value, path: &Path) {
    let addresses = addresses_of(status, "podIPs");
    let existing: HashSet<&str> = addresses_of(before, "podIPs").into_iter().collect();
    let mut seen = HashSet::with_capacity(addresses.len());
    for (index, address) in addresses.iter().enumerate() {
        errors.extend(ip::validate(&path.index(index), address, &existing));
        if !seen.insert(*address) {
            errors.push(FieldError::duplicate(&path.index(index), *address));
        }
    }
    validate_families(errors, &addresses, path);
}

fn addresses_of<'s>(status: &'s Value, list: &str) -> Vec<&'s str> {
    items(status, list)
        .iter()
        .map(|entry| text(entry, "ip"))
        .collect()
}

/// Checks that several addresses are one of each family. As upstream, an invalid address has no family, which is an
/// internal error as well.
fn validate_families(errors: &mut FieldErrors, addresses: &[&str], path: &Path) {
    if addresses.len() < 2 {
        return;
    }
    let families: Vec<_> = addresses.iter().map(|address| ip::family_of(address)).collect();
    let invalid = families.iter().position(Option::is_none);
    if let Some(index) = invalid {
        let address = addresses[index];
        let detail = format!("failed to check for dual stack with error:invalid IP[{index}]: {address}");
        errors.push(FieldError::internal(path, detail));
    }
    let is_dual = matches!(families.as_slice(), [first, second] if first != second);
    if invalid.is_some() || !is_dual {
        // As upstream, which shows the internal type.
        let shown: Vec<Value> = addresses.iter().map(|address| json!({ "IP": address })).collect();
        errors.push(FieldError::invalid(path, shown, REPEATED_FAMILY));
    }
}

#[cfg(test)]
mod tests;
