//! Defaults and validation of ServiceImports, as upstream's definition of the kind has them.

use serde_json::Value;

use super::default_status;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm};
use crate::machinery::tree::{child, is_set, items, omit_zero, text};

/// Valid types.
const TYPES: [&str; 2] = ["ClusterSetIP", "Headless"];
/// Maximum number of entries of `spec.ips` and of `spec.ipFamilies`: one per IP family.
const FAMILIES_MAX: usize = 2;

/// Drops empty fields of a ServiceImport.
pub fn default_import_on_write(import: &mut Value) {
    metadata::omit_empty(import);
    if let Some(spec) = import.get_mut("spec") {
        omit_zero(
            spec,
            &[
                "ips",
                "ipFamilies",
                "sessionAffinity",
                "internalTrafficPolicy",
                "trafficDistribution",
            ],
        );
    }
    if let Some(status) = import.get_mut("status") {
        omit_zero(status, &["clusters", "endpointSliceObjects"]);
    }
    default_status(import);
}

/// Validates a new ServiceImport.
pub fn validate_import(import: &Value) -> FieldErrors {
    let mut errors = metadata::validate(import, NameForm::DnsSubdomain, true);
    validate_spec(&mut errors, import);
    errors
}

/// Validates an update of a ServiceImport. All of the spec may change.
pub fn validate_import_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    validate_spec(&mut errors, new);
    errors
}

/// Validates the spec. A ServiceImport may lack it; then all of its fields are absent.
fn validate_spec(errors: &mut FieldErrors, import: &Value) {
    if !is_set(import, "spec") {
        return;
    }
    let (spec, path) = (child(import, "spec"), Path::new("spec"));
    let kind = text(spec, "type");
    if kind.is_empty() {
        errors.push(FieldError::required(&path.child("type"), ""));
    } else if !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(&path.child("type"), kind, &TYPES));
    }
    if !is_set(spec, "ports") {
        errors.push(FieldError::required(&path.child("ports"), ""));
    }
    for (index, port) in items(spec, "ports").iter().enumerate() {
        if !is_set(port, "port") {
            let path = path.child("ports").index(index).child("port");
            errors.push(FieldError::required(&path, ""));
        }
    }
    for field in ["ips", "ipFamilies"] {
        let actual = items(spec, field).len();
        if actual > FAMILIES_MAX {
            errors.push(FieldError::too_many(&path.child(field), actual, FAMILIES_MAX));
        }
    }
}
