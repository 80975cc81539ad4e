//! Conditions of the common type `meta/v1.Condition`, and of the older types.

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

/// Completes conditions of the older types, which each kind defines: they have type and status, unknown times are null,
/// and empty texts are absent.
pub fn complete_conditions(object: &mut Value, times: &[&str]) {
    let Some(status) = object.get_mut("status") else {
        return;
    };
    omit_zero(status, &["conditions"]);
    for condition in items_mut(status, "conditions")
        .iter_mut()
        .filter(|item| item.is_object())
    {
        omit_zero(condition, &["reason", "message"]);
        for field in ["type", "status"] {
            if !is_set(condition, field) {
                set(condition, field, "");
            }
        }
        for time in times {
            if !is_set(condition, time) {
                set(condition, time, Value::Null);
            }
        }
    }
}
