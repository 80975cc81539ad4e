//! Rules of Endpoints, the older kind (DEF-10, EPV-01 to EPV-07, WRN-08).

use std::collections::HashSet;

use serde_json::Value;

use super::omit_empty_target;
use crate::kinds::ports::{validate_app_protocol, validate_number_and_protocol};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm, push_faults};
use crate::machinery::tree::{child, items, items_mut, omit_null, omit_zero, set, text, text_if_set};
use crate::machinery::{ip, names};

const MANAGED_BY_LABEL: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");

/// Sets protocols of ports and drops empty fields.
pub fn default_endpoints_on_write(endpoints: &mut Value) {
    metadata::omit_empty(endpoints);
    omit_zero(endpoints, &["subsets"]);
    for subset in items_mut(endpoints, "subsets") {
        omit_zero(subset, &["addresses", "notReadyAddresses", "ports"]);
        for field in ["addresses", "notReadyAddresses"] {
            for address in items_mut(subset, field) {
                omit_zero(address, &["hostname"]);
                omit_null(address, &["nodeName", "targetRef"]);
                omit_empty_target(address);
            }
        }
        for port in items_mut(subset, "ports") {
            omit_zero(port, &["name", "protocol"]);
            omit_null(port, &["appProtocol"]);
            if text(port, "protocol").is_empty() {
                set(port, "protocol", "TCP");
            }
        }
    }
}

/// Validates new Endpoints.
pub fn validate_endpoints(endpoints: &Value) -> FieldErrors {
    validate(endpoints, None)
}

/// Validates an update. Unchanged subsets are not checked (EPV-07).
pub fn validate_endpoints_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    errors.extend(validate(new, Some(old)));
    errors
}

/// Warnings for accepted Endpoints. Endpoints of the built-in controller produce none.
pub fn endpoints_warnings(endpoints: &Value) -> Vec<String> {
    let labels = child(child(endpoints, "metadata"), "labels");
    if text(labels, MANAGED_BY_LABEL.0) == MANAGED_BY_LABEL.1 {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    for (index, subset) in items(endpoints, "subsets").iter().enumerate() {
        let path = Path::new("subsets").index(index);
        for field in ["addresses", "notReadyAddresses"] {
            for (at, address) in items(subset, field).iter().enumerate() {
                let path = path.child(field).index(at).child("ip");
                warnings.extend(ip::warning(&path, text(address, "ip")));
            }
        }
    }
    warnings
}

fn validate(endpoints: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = metadata::validate(endpoints, NameForm::DnsSubdomain, true);
    if old.is_none_or(|old| child(old, "subsets") != child(endpoints, "subsets")) {
        let existing = old.map(addresses_of).unwrap_or_default();
        for (index, subset) in items(endpoints, "subsets").iter().enumerate() {
            validate_subset(&mut errors, subset, &existing, &Path::new("subsets").index(index));
        }
    }
    errors
}

fn addresses_of(endpoints: &Value) -> HashSet<&str> {
    items(endpoints, "subsets")
        .iter()
        .flat_map(|subset| {
            items(subset, "addresses")
                .iter()
                .chain(items(subset, "notReadyAddresses"))
        })
        .map(|address| text(address, "ip"))
        .collect()
}

fn validate_subset(errors: &mut FieldErrors, subset: &Value, existing: &HashSet<&str>, path: &Path) {
    if items(subset, "addresses").is_empty() && items(subset, "notReadyAddresses").is_empty() {
        errors.push(FieldError::required(
            path,
            "must specify `addresses` or `notReadyAddresses`",
        ));
    }
    for field in ["addresses", "notReadyAddresses"] {
        for (index, address) in items(subset, field).iter().enumerate() {
            validate_address(errors, address, existing, &path.child(field).index(index));
        }
    }
    let ports = items(subset, "ports");
    for (index, port) in ports.iter().enumerate() {
        validate_port(errors, port, ports.len() > 1, &path.child("ports").index(index));
    }
}

fn validate_address(errors: &mut FieldErrors, address: &Value, existing: &HashSet<&str>, path: &Path) {
    let value = text(address, "ip");
    errors.extend(ip::validate(&path.child("ip"), value, existing));
    let hostname = text(address, "hostname");
    if !hostname.is_empty() {
        push_faults(
            errors,
            &path.child("hostname"),
            hostname,
            names::dns_label(hostname),
        );
    }
    if let Some(node) = text_if_set(address, "nodeName") {
        push_faults(errors, &path.child("nodeName"), node, names::dns_subdomain(node));
    }
    errors.extend(ip::validate_endpoint(&path.child("ip"), value));
}

fn validate_port(errors: &mut FieldErrors, port: &Value, is_name_required: bool, path: &Path) {
    let name = text(port, "name");
    if !name.is_empty() {
        push_faults(errors, &path.child("name"), name, names::dns_label(name));
    } else if is_name_required {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    validate_number_and_protocol(errors, port, path);
    validate_app_protocol(errors, port, path);
}
