//! Validation of tolerations (upstream's `ValidateTolerations`).

use serde_json::Value;

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::push_faults;
use crate::machinery::names;
use crate::machinery::tree::{is_set, items, text};

/// Effects of taints.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
/// Operators whose feature gate is off upstream. They are part of the message that rejects them.
const COMPARISONS: [&str; 2] = ["Gt", "Lt"];

/// Validates the tolerations of a Pod at `path`.
pub(in crate::kinds::pod) fn validate(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    for (index, toleration) in items(spec, "tolerations").iter().enumerate() {
        validate_toleration(errors, toleration, &path.index(index));
    }
}

fn validate_toleration(errors: &mut FieldErrors, toleration: &Value, path: &Path) {
    let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
    let (value, effect) = (text(toleration, "value"), text(toleration, "effect"));
    if !key.is_empty() {
        push_faults(errors, &path.child("key"), key, names::qualified_name(key));
    } else if operator != "Exists" {
        let fault =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(FieldError::invalid(&path.child("operator"), operator, fault));
    }
    if is_set(toleration, "tolerationSeconds") && effect != "NoExecute" {
        let fault = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(FieldError::invalid(&path.child("effect"), effect, fault));
    }
    // As upstream: faults of the value have the path of the operator.
    let at = path.child("operator");
    match operator {
        "Equal" | "" => {
            let faults = names::label_value(value);
            if !faults.is_empty() {
                errors.push(FieldError::invalid(&at, value, faults.join(";")));
            }
        }
        "Exists" if value.is_empty() => {}
        "Exists" => {
            let fault = "value must be empty when `operator` is 'Exists'";
            errors.push(FieldError::invalid(&at, value, fault));
        }
        other if COMPARISONS.contains(&other) => {
            let operators = ["Equal", "Exists", "Lt", "Gt"];
            errors.push(FieldError::not_supported(&at, other, &operators));
        }
        other => errors.push(FieldError::not_supported(&at, other, &["Equal", "Exists"])),
    }
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        errors.push(FieldError::not_supported(&path.child("effect"), effect, &EFFECTS));
    }
}
