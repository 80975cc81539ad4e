//! Conditions of the common type `meta/v1.Condition`.

use serde_json::Value;

use crate::machinery::tree::{is_set, items_mut, omit_zero, set};

/// Sets the fields of the conditions in a status that upstream always serializes, and drops an empty list.
pub(crate) fn default_conditions(status: &mut Value) {
    omit_zero(status, &["conditions"]);
    for condition in items_mut(status, "conditions") {
        omit_zero(condition, &["observedGeneration"]);
        if !is_set(condition, "lastTransitionTime") {
            set(condition, "lastTransitionTime", Value::Null);
        }
        for field in ["type", "status", "reason", "message"] {
            if !is_set(condition, field) {
                set(condition, field, "");
            }
        }
    }
}
