//! Validation of scheduling gates (upstream's `validateSchedulingGates`).

use std::collections::HashSet;

use serde_json::Value;

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::push_faults;
use crate::machinery::names;
use crate::machinery::tree::{items, text};

/// Validates the scheduling gates of a Pod.
pub(super) fn validate(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    let gates = items(spec, "schedulingGates");
    let at = path.child("schedulingGates");
    let mut seen = HashSet::new();
    for (index, gate) in gates.iter().enumerate() {
        let (name, at) = (text(gate, "name"), at.index(index));
        push_faults(errors, &at, name, names::qualified_name(name));
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&at, name));
        }
    }
    if !gates.is_empty() && !text(spec, "nodeName").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden(&path.child("nodeName"), detail));
    }
}
