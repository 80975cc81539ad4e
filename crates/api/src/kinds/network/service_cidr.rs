//! Rules of ServiceCIDRs, the ranges of cluster IPs (CIDR-01 to CIDR-04).

use serde_json::{Value, json};

use crate::kinds::condition::default_conditions;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::ip;
use crate::machinery::metadata::{self, NameForm};
use crate::machinery::tree::{child, object_mut, set, set_or_clear, texts};

/// Maximum number of ranges of one object: one per family.
const CIDRS_MAX: usize = 2;

/// Drops empty fields, and sets those of the conditions.
pub fn default_service_cidr_on_write(cidr: &mut Value) {
    metadata::omit_empty(cidr);
    object_mut(cidr, "status");
    if let Some(status) = cidr.get_mut("status") {
        default_conditions(status);
    }
}

/// Prepares a new ServiceCIDR: its status is empty (CIDR-04).
pub fn prepare_service_cidr_create(cidr: &mut Value) {
    set(cidr, "status", json!({}));
}

/// Prepares an update: the status stays (CIDR-04).
pub fn prepare_service_cidr_update(new: &mut Value, old: &Value) {
    set(
        new,
        "status",
        old.get("status").cloned().unwrap_or_else(|| json!({})),
    );
}

/// Prepares an update of the status: the spec stays, and the metadata except managed fields.
pub fn prepare_service_cidr_status_update(new: &mut Value, old: &Value) {
    set_or_clear(new, "spec", old.get("spec").cloned());
    let before = child(old, "metadata");
    object_mut(new, "metadata");
    if let Some(metadata) = new.get_mut("metadata") {
        for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
            set_or_clear(metadata, field, before.get(field).cloned());
        }
    }
}

/// Validates a new ServiceCIDR.
pub fn validate_service_cidr(cidr: &Value) -> FieldErrors {
    let mut errors = metadata::validate(cidr, NameForm::DnsSubdomain, false);
    validate_spec(&mut errors, child(cidr, "spec"));
    errors
}

/// Validates an update. Ranges are immutable; a second one can be added.
pub fn validate_service_cidr_update(new: &Value, old: &Value) -> FieldErrors {
    const IMMUTABLE: &str = "field is immutable";
    let mut errors = metadata::validate_update(new, old);
    let (before, after) = (
        texts(child(old, "spec"), "cidrs"),
        texts(child(new, "spec"), "cidrs"),
    );
    let path = Path::new("spec").child("cidrs");
    if before.len() == after.len() {
        for (index, (was, is)) in before.iter().zip(&after).enumerate() {
            if was != is {
                errors.push(FieldError::invalid(&path.index(index), *is, IMMUTABLE));
            }
        }
    } else if before.len() == 1 && after.len() == CIDRS_MAX {
        if before[0] != after[0] {
            errors.push(FieldError::invalid(&path.index(0), after[0], IMMUTABLE));
        }
        validate_spec(&mut errors, child(new, "spec"));
    } else {
        let value = child(new, "spec").get("cidrs").cloned();
        errors.push(FieldError::invalid(&path, value.unwrap_or_default(), IMMUTABLE));
    }
    errors
}

fn validate_spec(errors: &mut FieldErrors, spec: &Value) {
    let path = Path::new("spec").child("cidrs");
    let cidrs = texts(spec, "cidrs");
    if cidrs.is_empty() {
        errors.push(FieldError::required(&path, "at least one CIDR required"));
        return;
    }
    if cidrs.len() > CIDRS_MAX {
        let fault = format!("may only hold up to {CIDRS_MAX} values");
        errors.push(FieldError::invalid(&path, json!({ "CIDRs": cidrs }), fault));
        return;
    }
    for (index, cidr) in cidrs.iter().enumerate() {
        errors.extend(ip::validate_canonical_cidr(&path.index(index), cidr));
    }
    let families: Vec<bool> = cidrs
        .iter()
        .filter_map(|cidr| ip::parse_legacy_cidr(cidr))
        .map(|cidr| cidr.net.addr().is_ipv6())
        .collect();
    if families.len() == CIDRS_MAX && families[0] == families[1] {
        let fault =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.push(FieldError::invalid(&path, cidrs, fault));
    }
}
