//! Nodes: defaults, and validation of ranges, taints and resources.

use std::collections::HashSet;
use std::net::IpAddr;

use api::apps::complete_conditions;
use api::field::{FieldError, FieldErrors, Path};
use api::metadata::{self, NameForm, push_faults};
use api::tree::{
    as_object_mut, child, clear, complete_items, entries, is_set, items, items_mut, omit_zero, set,
    set_or_clear, text, texts,
};
use api::{ip, names, resource_amount};
use serde_json::{Map, Value, json};

/// Fields of `status.nodeInfo` that every Node has.
const NODE_INFO: [&str; 10] = [
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
];
/// Fields of the spec that are not stored if they are empty.
const EMPTY_IN_SPEC: &[&str] = &["taints", "unschedulable", "providerID"];
/// Fields of the status that are not stored if they are empty.
const EMPTY_IN_STATUS: &[&str] = &[
    "addresses",
    "allocatable",
    "capacity",
    "conditions",
    "images",
    "phase",
    "runtimeHandlers",
    "volumesAttached",
    "volumesInUse",
];
/// Times that every condition has; null if they are unknown.
const CONDITION_TIMES: [&str; 2] = ["lastHeartbeatTime", "lastTransitionTime"];
/// Effects of taints.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
/// Error of a change of the Pod ranges.
const RANGES_CHANGED: &str = "node updates may not change podCIDR except from \"\" to valid";
/// Error of a change of the provider's id.
const PROVIDER_CHANGED: &str = "node updates may not change providerID except from \"\" to valid";

/// Sets defaults and removes empty fields.
pub(crate) fn default_on_write(node: &mut Value) {
    metadata::omit_empty(node);
    for (part, empty) in [("spec", EMPTY_IN_SPEC), ("status", EMPTY_IN_STATUS)] {
        if let Some(part) = node.get_mut(part) {
            omit_zero(part, empty);
        }
    }
    let fields = as_object_mut(node);
    let spec = fields.entry("spec").or_insert_with(|| json!({}));
    as_object_mut(spec);
    join_ranges(spec);
    let status = fields.entry("status").or_insert_with(|| json!({}));
    if status.is_null() {
        *status = json!({});
    }
    default_status(status);
    complete_conditions(node, &CONDITION_TIMES);
}

/// Makes `podCIDR` the first of `podCIDRs`; `podCIDR` takes precedence.
fn join_ranges(spec: &mut Value) {
    let (first, all) = (text(spec, "podCIDR"), texts(spec, "podCIDRs"));
    match (first, all.first().copied()) {
        ("", None) => ["podCIDR", "podCIDRs"]
            .iter()
            .for_each(|field| clear(spec, field)),
        ("", Some(one)) => {
            let one = one.to_owned();
            set(spec, "podCIDR", one);
        }
        (one, listed) if listed != Some(one) => {
            let one = one.to_owned();
            set(spec, "podCIDRs", json!([one]));
        }
        _ => {}
    }
}

fn default_status(status: &mut Value) {
    if !is_set(status, "allocatable") && is_set(status, "capacity") {
        let capacity = child(status, "capacity").clone();
        set(status, "allocatable", capacity);
    }
    let endpoint = Map::from_iter([("Port".to_owned(), json!(0))]);
    let daemons = api::tree::object_mut(status, "daemonEndpoints");
    let daemon = daemons
        .entry("kubeletEndpoint")
        .or_insert_with(|| endpoint.into());
    if let Some(daemon) = daemon.as_object_mut() {
        daemon.entry("Port").or_insert(json!(0));
    }
    let info = api::tree::object_mut(status, "nodeInfo");
    for field in NODE_INFO {
        info.entry(field).or_insert(json!(""));
    }
    complete_items(status, "addresses", &["type", "address"]);
    complete_items(status, "runtimeHandlers", &["name"]);
    complete_items(status, "volumesAttached", &["name", "devicePath"]);
    for image in items_mut(status, "images")
        .iter_mut()
        .filter(|image| image.is_object())
    {
        omit_zero(image, &["names", "sizeBytes"]);
        if !is_set(image, "names") {
            set(image, "names", Value::Null);
        }
    }
}

/// Prepares a new Node. A kubelet registers its Node with a status, so a new Node keeps it.
pub(crate) fn prepare_create(node: &mut Value) {
    drop_disabled_fields(node);
}

/// Prepares an update: the status stays.
pub(crate) fn prepare_update(new: &mut Value, old: &Value) {
    set_or_clear(new, "status", old.get("status").cloned());
    drop_disabled_fields(new);
}

/// Removes the source of a dynamic configuration, which upstream removed from the kubelet.
fn drop_disabled_fields(node: &mut Value) {
    if let Some(spec) = node.get_mut("spec") {
        clear(spec, "configSource");
    }
}

/// Returns the warnings about a Node (upstream's `GetWarningsForNode`).
pub(crate) fn warnings(node: &Value) -> Vec<String> {
    let has_external_id = !text(child(node, "spec"), "externalID").is_empty();
    let warning = "spec.externalID: this field is deprecated, and is unused by Kubernetes";
    has_external_id.then(|| warning.to_owned()).into_iter().collect()
}

/// Validates a new Node.
pub(crate) fn validate(node: &Value) -> FieldErrors {
    let mut errors = metadata::validate(node, NameForm::DnsSubdomain, false);
    validate_taints(&mut errors, node);
    validate_resources(&mut errors, node);
    validate_ranges(&mut errors, node);
    errors
}

/// Validates an update of a Node or of its status. Ranges and the provider's id stay once they are set.
pub(crate) fn validate_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    validate_resources(&mut errors, new);
    validate_addresses(&mut errors, new);
    let spec = Path::new("spec");
    let (new_spec, old_spec) = (child(new, "spec"), child(old, "spec"));
    let (ranges, old_ranges) = (texts(new_spec, "podCIDRs"), texts(old_spec, "podCIDRs"));
    if !old_ranges.is_empty() && ranges != old_ranges {
        errors.push(FieldError::forbidden(&spec.child("podCIDRs"), RANGES_CHANGED));
    }
    let old_provider = text(old_spec, "providerID");
    if !old_provider.is_empty() && text(new_spec, "providerID") != old_provider {
        errors.push(FieldError::forbidden(&spec.child("providerID"), PROVIDER_CHANGED));
    }
    validate_taints(&mut errors, new);
    errors
}

/// Validates taints. As upstream, their errors have the path `metadata.taints`.
fn validate_taints(errors: &mut FieldErrors, node: &Value) {
    let path = Path::new("metadata").child("taints");
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    for (index, taint) in items(child(node, "spec"), "taints").iter().enumerate() {
        let path = path.index(index);
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        push_faults(errors, &path.child("key"), key, names::qualified_name(key));
        let faults = names::label_value(value);
        if !faults.is_empty() {
            errors.push(FieldError::invalid(&path.child("value"), value, faults.join(";")));
        }
        if effect.is_empty() {
            errors.push(FieldError::required(&path.child("effect"), ""));
        } else if !EFFECTS.contains(&effect) {
            errors.push(FieldError::not_supported(&path.child("effect"), effect, &EFFECTS));
        }
        if !seen.insert((key, effect)) {
            let shown =
                json!({"Key": key, "Value": value, "Effect": effect, "TimeAdded": child(taint, "timeAdded")});
            let mut duplicate = FieldError::duplicate(&path, shown);
            duplicate
                .message
                .push_str(": taints must be unique by key and effect pair");
            errors.push(duplicate);
        }
    }
}

/// Validates the amounts of `status.capacity` and `status.allocatable`.
fn validate_resources(errors: &mut FieldErrors, node: &Value) {
    let status = child(node, "status");
    for field in ["capacity", "allocatable"] {
        let path = Path::new("status").child(field);
        for (name, amount) in entries(status, field) {
            resource_amount::validate(errors, &path.child(name), name, amount);
        }
    }
}

/// Validates the Pod ranges: at most one for each family.
fn validate_ranges(errors: &mut FieldErrors, node: &Value) {
    let path = Path::new("spec").child("podCIDRs");
    let ranges = texts(child(node, "spec"), "podCIDRs");
    for (index, range) in ranges.iter().enumerate() {
        errors.extend(ip::validate_new_cidr(&path.index(index), range));
    }
    let families: Vec<bool> = ranges
        .iter()
        .filter_map(|range| ip::parse_legacy_cidr(range))
        .map(|range| matches!(range.net.addr(), IpAddr::V4(_)))
        .collect();
    let is_pair = ranges.len() == 2 && families.len() == 2 && families[0] != families[1];
    if ranges.len() > 1 && families.len() == ranges.len() && !is_pair {
        let fault = "may specify no more than one CIDR for each IP family";
        errors.push(FieldError::invalid(&path, ranges, fault));
    }
}

/// Rejects an address that the status has twice.
fn validate_addresses(errors: &mut FieldErrors, node: &Value) {
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    for (index, address) in items(child(node, "status"), "addresses").iter().enumerate() {
        let pair = (text(address, "type"), text(address, "address"));
        if !seen.insert(pair) {
            let path = Path::new("status").child("addresses").index(index);
            let shown = json!({"Type": pair.0, "Address": pair.1});
            errors.push(FieldError::duplicate(&path, shown));
        }
    }
}

#[cfg(test)]
mod tests;
