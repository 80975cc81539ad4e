//! Rules of EndpointSlices (DEF-11, EPV-08 to EPV-15, API-54, WRN-08).

use std::collections::HashSet;

use serde_json::Value;

use super::omit_empty_target;
use crate::kinds::ports::{PROTOCOLS, validate_app_protocol};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::ip::{self, Family};
use crate::machinery::metadata::{self, NameForm, push_faults};
use crate::machinery::names;
use crate::machinery::tree::{
    child, clear, entries, is_set, items, items_mut, number, object_mut, omit_null, omit_zero, set, text,
    text_if_set, texts,
};

const ENDPOINTS_MAX: usize = 1000;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20_000;
const TOPOLOGY_LABELS_MAX: usize = 16;
const HINTS_MAX: usize = 8;
const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
const BUILT_IN_WRITERS: [&str; 2] = [
    "endpointslice-controller.k8s.io",
    "endpointslicemirroring-controller.k8s.io",
];

/// Sets names and protocols of ports, and drops empty fields.
pub fn default_slice_on_write(slice: &mut Value) {
    metadata::omit_empty(slice);
    // As upstream, whose stored form does not distinguish empty and absent lists.
    for field in ["endpoints", "ports"] {
        if items(slice, field).is_empty() {
            set(slice, field, Value::Null);
        }
    }
    for port in items_mut(slice, "ports") {
        omit_null(port, &["port", "appProtocol"]);
        if !is_set(port, "name") {
            set(port, "name", "");
        }
        if !is_set(port, "protocol") {
            set(port, "protocol", "TCP");
        }
    }
    for endpoint in items_mut(slice, "endpoints") {
        object_mut(endpoint, "conditions");
        if let Some(conditions) = endpoint.get_mut("conditions") {
            omit_null(conditions, &["ready", "serving", "terminating"]);
        }
        omit_null(endpoint, &["hostname", "targetRef", "nodeName", "zone", "hints"]);
        omit_zero(endpoint, &["deprecatedTopology"]);
        omit_empty_target(endpoint);
        if let Some(hints) = endpoint.get_mut("hints") {
            omit_zero(hints, &["forZones", "forNodes"]);
            for list in ["forZones", "forNodes"] {
                for hint in items_mut(hints, list) {
                    if !is_set(hint, "name") {
                        set(hint, "name", "");
                    }
                }
            }
        }
    }
}

/// Prepares a new slice: its generation is 1.
pub fn prepare_slice_create(slice: &mut Value) {
    object_mut(slice, "metadata").insert("generation".to_owned(), 1.into());
    drop_topology(slice, &Value::Null);
}

/// Prepares an update: a change of labels or of anything but metadata increments the generation (API-54). As upstream, a
/// `deprecatedTopology` that is dropped counts as a change.
pub fn prepare_slice_update(new: &mut Value, old: &Value) {
    let generation = number(child(old, "metadata"), "generation");
    let labels = |slice: &Value| child(child(slice, "metadata"), "labels").clone();
    let is_changed = ["addressType", "endpoints", "ports"]
        .into_iter()
        .any(|field| child(new, field) != child(old, field))
        || labels(new) != labels(old);
    if child(new, "endpoints") != child(old, "endpoints") {
        drop_topology(new, old);
    }
    let generation = generation + i64::from(is_changed);
    object_mut(new, "metadata").insert("generation".to_owned(), generation.into());
}

/// Drops `deprecatedTopology`, which this version cannot write. A node name that was stored there moves to `nodeName`
/// (EPV-15).
fn drop_topology(new: &mut Value, old: &Value) {
    let known: HashSet<&str> = items(old, "endpoints")
        .iter()
        .map(|endpoint| text(child(endpoint, "deprecatedTopology"), HOSTNAME_LABEL))
        .collect();
    for endpoint in items_mut(new, "endpoints") {
        let topology = child(endpoint, "deprecatedTopology");
        let node = text(topology, HOSTNAME_LABEL).to_owned();
        if !is_set(endpoint, "nodeName")
            && !node.is_empty()
            && known.contains(node.as_str())
            && names::dns_subdomain(&node).is_empty()
        {
            set(endpoint, "nodeName", node);
        }
        clear(endpoint, "deprecatedTopology");
    }
}

/// Validates a new slice.
pub fn validate_slice(slice: &Value) -> FieldErrors {
    validate(slice, None)
}

/// Validates an update. The address type is immutable.
pub fn validate_slice_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update_of_any(new, old);
    errors.extend(validate(new, Some(old)));
    if child(new, "addressType") != child(old, "addressType") {
        let value = text(new, "addressType");
        errors.push(FieldError::invalid(
            &Path::new("addressType"),
            value,
            "field is immutable",
        ));
    }
    errors
}

/// Warnings for a new slice, besides those of [`slice_warnings`]. As upstream, updates of the slice produce none of them.
pub fn slice_creation_warnings(slice: &Value) -> Vec<String> {
    let is_deprecated = text(slice, "addressType") == "FQDN";
    // As upstream, although a slice has no `spec`.
    let warning = || "spec.addressType: FQDN endpoints are deprecated".to_owned();
    is_deprecated.then(warning).into_iter().collect()
}

/// Warnings for an accepted slice. Slices of the built-in controllers produce none.
pub fn slice_warnings(slice: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let writer = text(child(child(slice, "metadata"), "labels"), MANAGED_BY_LABEL);
    if BUILT_IN_WRITERS.contains(&writer) {
        return warnings;
    }
    for (index, endpoint) in items(slice, "endpoints").iter().enumerate() {
        let path = Path::new("endpoints").index(index).child("addresses");
        for (at, address) in texts(endpoint, "addresses").into_iter().enumerate() {
            warnings.extend(ip::warning(&path.index(at), address));
        }
    }
    warnings
}

fn validate(slice: &Value, old: Option<&Value>) -> FieldErrors {
    const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
    let mut errors = metadata::validate(slice, NameForm::DnsSubdomain, true);
    let address_type = text(slice, "addressType");
    let path = Path::new("addressType");
    if address_type.is_empty() {
        errors.push(FieldError::required(&path, ""));
    } else if !ADDRESS_TYPES.contains(&address_type) {
        errors.push(FieldError::not_supported(&path, address_type, &ADDRESS_TYPES));
    }
    validate_ports(&mut errors, slice);
    let endpoints = items(slice, "endpoints");
    let path = Path::new("endpoints");
    if endpoints.len() > ENDPOINTS_MAX {
        errors.push(FieldError::too_many(&path, endpoints.len(), ENDPOINTS_MAX));
        return errors;
    }
    let existing: HashSet<&str> = old
        .into_iter()
        .flat_map(|old| items(old, "endpoints"))
        .flat_map(|endpoint| texts(endpoint, "addresses"))
        .collect();
    for (index, endpoint) in endpoints.iter().enumerate() {
        validate_endpoint(&mut errors, endpoint, address_type, &existing, &path.index(index));
    }
    errors
}

fn validate_ports(errors: &mut FieldErrors, slice: &Value) {
    let ports = items(slice, "ports");
    let path = Path::new("ports");
    if ports.len() > PORTS_MAX {
        errors.push(FieldError::too_many(&path, ports.len(), PORTS_MAX));
        return;
    }
    let mut seen = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            push_faults(errors, &path.child("name"), name, names::dns_label(name));
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        match text_if_set(port, "protocol") {
            None => errors.push(FieldError::required(&path.child("protocol"), "")),
            Some(protocol) if PROTOCOLS.contains(&protocol) => {}
            Some(protocol) => {
                errors.push(FieldError::not_supported(
                    &path.child("protocol"),
                    protocol,
                    &PROTOCOLS,
                ));
            }
        }
        validate_app_protocol(errors, port, &path);
    }
}

/// Validates an endpoint. `existing` are the addresses that the stored slice has.
fn validate_endpoint(
    errors: &mut FieldErrors,
    endpoint: &Value,
    address_type: &str,
    existing: &HashSet<&str>,
    path: &Path,
) {
    let addresses = texts(endpoint, "addresses");
    let addresses_path = path.child("addresses");
    if addresses.is_empty() {
        errors.push(FieldError::required(
            &addresses_path,
            "must contain at least 1 address",
        ));
    } else if addresses.len() > ADDRESSES_MAX {
        errors.push(FieldError::too_many(
            &addresses_path,
            addresses.len(),
            ADDRESSES_MAX,
        ));
    }
    for (index, address) in addresses.into_iter().enumerate() {
        let path = addresses_path.index(index);
        match address_type {
            // As upstream: addresses that the slice had before are not checked again.
            "FQDN" if existing.contains(address) => {}
            "FQDN" if address.is_empty() => errors.push(FieldError::required(&path, "")),
            "FQDN" => push_faults(errors, &path, address, names::fully_qualified_domain(address)),
            "IPv4" => validate_address(errors, address, Family::V4, existing, (&addresses_path, &path)),
            "IPv6" => validate_address(errors, address, Family::V6, existing, (&addresses_path, &path)),
            _ => {}
        }
    }
    if let Some(node) = text_if_set(endpoint, "nodeName") {
        push_faults(errors, &path.child("nodeName"), node, names::dns_subdomain(node));
    }
    let topology_path = path.child("deprecatedTopology");
    let labels = entries(endpoint, "deprecatedTopology").count();
    if labels > TOPOLOGY_LABELS_MAX {
        errors.push(FieldError::too_many(&topology_path, labels, TOPOLOGY_LABELS_MAX));
    }
    metadata::validate_labels(errors, &topology_path, entries(endpoint, "deprecatedTopology"));
    if let Some(hostname) = text_if_set(endpoint, "hostname") {
        push_faults(
            errors,
            &path.child("hostname"),
            hostname,
            names::dns_label(hostname),
        );
    }
    let hints_path = path.child("hints");
    let hints = child(endpoint, "hints");
    // As upstream: too many hints of one kind skip the check of the other.
    if validate_hints(errors, hints, &hints_path, "forZones", names::label_value) {
        validate_hints(errors, hints, &hints_path, "forNodes", names::dns_subdomain);
    }
}

/// Validates an address. An address of the wrong family is reported at the list, as upstream.
fn validate_address(
    errors: &mut FieldErrors,
    address: &str,
    family: Family,
    existing: &HashSet<&str>,
    (list_path, path): (&Path, &Path),
) {
    // Addresses that the slice had before are not checked again, also after a change of the type.
    let is_new = !existing.contains(address);
    if is_new {
        let faults = ip::validate_new(path, address);
        if !faults.is_empty() {
            errors.extend(faults);
            return;
        }
        if family == Family::V6
            && let Some(fault) = ip::canonical_fault(address)
        {
            errors.push(FieldError::invalid(path, address, fault));
            return;
        }
    }
    if is_new && ip::family_of(address) != Some(family) {
        let fault = format!("must be an {} address", family.name());
        errors.push(FieldError::invalid(list_path, address, fault));
    }
    errors.extend(ip::validate_endpoint(path, address));
}

/// Validates the hints of one kind. Returns false if there are too many to check.
fn validate_hints(
    errors: &mut FieldErrors,
    hints: &Value,
    path: &Path,
    field: &str,
    form: fn(&str) -> Vec<String>,
) -> bool {
    let hinted = items(hints, field);
    let path = path.child(field);
    if hinted.len() > HINTS_MAX {
        errors.push(FieldError::too_many(&path, hinted.len(), HINTS_MAX));
        return false;
    }
    let mut seen = HashSet::new();
    for (index, hint) in hinted.iter().enumerate() {
        let name = text(hint, "name");
        let path = path.index(index).child("name");
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path, name));
        }
        push_faults(errors, &path, name, form(name));
    }
    true
}
