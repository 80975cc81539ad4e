//! Validation of the load balancer status (VAL-57 to VAL-60).

use std::collections::HashSet;

use serde_json::Value;

use crate::kinds::service::View;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, push_faults};
use crate::machinery::tree::{child, items, text, text_if_set};
use crate::machinery::{ip, names};

/// Validates an update of the status.
pub fn validate_status_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    let path = Path::new("status").child("loadBalancer").child("ingress");
    let ingress = ingress_of(new);
    if !View::of(new).is_load_balancer() {
        if !ingress.is_empty() {
            let detail = "may only be used when `spec.type` is 'LoadBalancer'";
            errors.push(FieldError::forbidden(&path, detail));
        }
        return errors;
    }
    let existing: HashSet<&str> = ingress_of(old).iter().map(|entry| text(entry, "ip")).collect();
    for (index, entry) in ingress.iter().enumerate() {
        validate_ingress(&mut errors, entry, &existing, &path.index(index));
    }
    errors
}

fn ingress_of(service: &Value) -> &[Value] {
    items(child(child(service, "status"), "loadBalancer"), "ingress")
}

fn validate_ingress(errors: &mut FieldErrors, entry: &Value, existing: &HashSet<&str>, path: &Path) {
    const MODES: [&str; 2] = ["Proxy", "VIP"];
    let address = text(entry, "ip");
    if !address.is_empty() {
        errors.extend(ip::validate(&path.child("ip"), address, existing));
    }
    let mode_path = path.child("ipMode");
    match (address, text_if_set(entry, "ipMode")) {
        ("", None) => {}
        (_, None) => errors.push(FieldError::required(
            &mode_path,
            "must be specified when `ip` is set",
        )),
        ("", Some(_)) => {
            errors.push(FieldError::forbidden(
                &mode_path,
                "may not be specified when `ip` is not set",
            ));
        }
        (_, Some(mode)) if MODES.contains(&mode) => {}
        (_, Some(mode)) => errors.push(FieldError::not_supported(&mode_path, mode, &MODES)),
    }
    let hostname = text(entry, "hostname");
    if hostname.is_empty() {
        return;
    }
    let path = path.child("hostname");
    push_faults(errors, &path, hostname, names::dns_subdomain(hostname));
    if ip::parse_legacy(hostname).is_some() {
        errors.push(FieldError::invalid(
            &path,
            hostname,
            "must be a DNS name, not an IP address",
        ));
    }
}
