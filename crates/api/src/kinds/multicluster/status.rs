//! Validation of the status of multi-cluster kinds.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::tree::{is_set, items, text};

/// Valid values of `status` of a condition.
const STATES: [&str; 3] = ["True", "False", "Unknown"];
/// Valid values of `status.endpointSliceObjects`.
const PRESENCES: [&str; 2] = ["Present", "Absent"];

/// Validates `status.conditions`.
pub(super) fn validate_conditions(errors: &mut FieldErrors, status: &Value) {
    let path = Path::new("status").child("conditions");
    let mut types = BTreeSet::new();
    for (index, condition) in items(status, "conditions").iter().enumerate() {
        let path = path.index(index);
        for field in ["type", "reason"] {
            if text(condition, field).is_empty() {
                errors.push(FieldError::required(&path.child(field), ""));
            }
        }
        if !is_set(condition, "lastTransitionTime") {
            errors.push(FieldError::required(&path.child("lastTransitionTime"), ""));
        }
        let state = text(condition, "status");
        if !STATES.contains(&state) {
            errors.push(FieldError::not_supported(&path.child("status"), state, &STATES));
        }
        let kind = text(condition, "type");
        if !types.insert(kind) {
            errors.push(FieldError::duplicate(&path.child("type"), kind));
        }
    }
}

/// Validates the fields of a ServiceImport's status beside the conditions.
pub(super) fn validate_clusters(errors: &mut FieldErrors, status: &Value) {
    let path = Path::new("status");
    let mut names = BTreeSet::new();
    for (index, cluster) in items(status, "clusters").iter().enumerate() {
        let path = path.child("clusters").index(index).child("cluster");
        let name = text(cluster, "cluster");
        if name.is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else if !names.insert(name) {
            errors.push(FieldError::duplicate(&path, name));
        }
    }
    let presence = text(status, "endpointSliceObjects");
    if !presence.is_empty() && !PRESENCES.contains(&presence) {
        let path = path.child("endpointSliceObjects");
        errors.push(FieldError::not_supported(&path, presence, &PRESENCES));
    }
}
