//! Validation of tolerations (upstream's `ValidateTolerations`).

use serde_json::Value;

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::push_faults;
use crate::machinery::names;
use crate::machinery::tree::{is_set, items, text};

/// Operators. Upstream has Lt and Gt behind the feature gate `TaintTolerationComparisonOperators`, which is off by
/// default.
const OPERATORS: [&str; 2] = ["Equal", "Exists"];
/// Effects of taints.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Validates the tolerations of the spec of a Pod at `path`.
pub(crate) fn validate(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    let path = path.child("tolerations");
    for (index, toleration) in items(spec, "tolerations").iter().enumerate() {
        validate_toleration(errors, toleration, &path.index(index));
    }
}

fn validate_toleration(errors: &mut FieldErrors, toleration: &Value, path: &Path) {
    let [key, operator, value, effect] =
        ["key", "operator", "value", "effect"].map(|field| text(toleration, field));
    if !key.is_empty() {
        push_faults(errors, &path.child("key"), key, names::qualified_name(key));
    }
    let operator_path = path.child("operator");
    if key.is_empty() && operator != "Exists" {
        let fault =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(FieldError::invalid(&operator_path, operator, fault));
    }
    if is_set(toleration, "tolerationSeconds") && effect != "NoExecute" {
        let fault = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(FieldError::invalid(&path.child("effect"), effect, fault));
    }
    // As upstream: faults of the value have the path of the operator.
    match operator {
        "" | "Equal" => {
            let faults = names::label_value(value);
            if !faults.is_empty() {
                errors.push(FieldError::invalid(&operator_path, value, faults.join(";")));
            }
        }
        "Exists" if !value.is_empty() => {
            let fault = "value must be empty when `operator` is 'Exists'";
            errors.push(FieldError::invalid(&operator_path, toleration.clone(), fault));
        }
        "Exists" => {}
        other => errors.push(FieldError::not_supported(&operator_path, other, &OPERATORS)),
    }
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        errors.push(FieldError::not_supported(&path.child("effect"), effect, &EFFECTS));
    }
}

#[cfg(test)]
mod tests;
