//! Defaults and validation of `podFailurePolicy` (KEP-3329).

use std::collections::HashSet;

use serde_json::Value;

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::push_faults;
use crate::machinery::names;
use crate::machinery::tree::{child, is_set, items, items_mut, set, text};

/// Name of the field.
pub(super) const FIELD: &str = "podFailurePolicy";
/// Maximum number of rules of a policy, and conditions of a rule.
const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
const EXIT_CODES: &str = "onExitCodes";
const CONDITIONS: &str = "onPodConditions";

/// Sets the defaults of a policy: conditions are True.
pub(super) fn default_on_write(policy: &mut Value) {
    for rule in items_mut(policy, "rules") {
        for pattern in items_mut(rule, CONDITIONS) {
            if text(pattern, "status").is_empty() {
                set(pattern, "status", "True");
            }
        }
    }
}

/// Validates the policy of a Job.
pub(super) fn validate(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    if !is_set(spec, FIELD) {
        return;
    }
    let path = path.child(FIELD).child("rules");
    let rules = items(child(spec, FIELD), "rules");
    if rules.len() > RULES_MAX {
        errors.push(FieldError::too_many(&path, rules.len(), RULES_MAX));
    }
    let template = child(child(spec, "template"), "spec");
    let containers = ["containers", "initContainers"].map(|list| items(template, list));
    let containers = containers.into_iter().flatten();
    let names: HashSet<&str> = containers.map(|container| text(container, "name")).collect();
    for (index, rule) in rules.iter().enumerate() {
        validate_rule(errors, rule, &names, &path.index(index));
    }
}

fn validate_rule(errors: &mut FieldErrors, rule: &Value, names: &HashSet<&str>, path: &Path) {
    match text(rule, "action") {
        // `backoffLimitPerIndex` is not served.
        "FailIndex" => {
            let fault = "requires the backoffLimitPerIndex to be set";
            errors.push(FieldError::invalid(&path.child("action"), "FailIndex", fault));
        }
        _ => validate_choice(errors, rule, "action", &ACTIONS, path),
    }
    let has_exit_codes = is_set(rule, EXIT_CODES);
    if has_exit_codes {
        validate_exit_codes(errors, child(rule, EXIT_CODES), names, &path.child(EXIT_CODES));
    }
    let conditions = items(rule, CONDITIONS);
    validate_conditions(errors, conditions, &path.child(CONDITIONS));
    match (has_exit_codes, conditions.is_empty()) {
        (true, false) => {
            let fault = "specifying both OnExitCodes and OnPodConditions is not supported";
            errors.push(FieldError::invalid_whole(path, fault));
        }
        (false, true) => {
            let fault = "specifying one of OnExitCodes and OnPodConditions is required";
            errors.push(FieldError::invalid_whole(path, fault));
        }
        _ => {}
    }
}

fn validate_conditions(errors: &mut FieldErrors, patterns: &[Value], path: &Path) {
    if patterns.len() > RULES_MAX {
        errors.push(FieldError::too_many(path, patterns.len(), RULES_MAX));
    }
    for (index, pattern) in patterns.iter().enumerate() {
        let path = path.index(index);
        let kind = text(pattern, "type");
        push_faults(errors, &path.child("type"), kind, names::qualified_name(kind));
        validate_choice(errors, pattern, "status", &STATUSES, &path);
    }
}

fn validate_exit_codes(errors: &mut FieldErrors, codes: &Value, names: &HashSet<&str>, path: &Path) {
    validate_choice(errors, codes, "operator", &OPERATORS, path);
    let container = text(codes, "containerName");
    if is_set(codes, "containerName") && !names.contains(container) {
        let fault = "must be one of the container or initContainer names in the pod template";
        errors.push(FieldError::invalid(
            &path.child("containerName"),
            container,
            fault,
        ));
    }
    let (values, path) = (items(codes, "values"), path.child("values"));
    if values.is_empty() {
        let fault = "at least one value is required";
        errors.push(FieldError::invalid(&path, values.to_vec(), fault));
    } else if values.len() > EXIT_CODES_MAX {
        errors.push(FieldError::too_many(&path, values.len(), EXIT_CODES_MAX));
    }
    let numbers: Vec<i64> = values.iter().filter_map(Value::as_i64).collect();
    let mut seen = HashSet::new();
    for (index, number) in numbers.iter().enumerate() {
        let path = path.index(index);
        if text(codes, "operator") == "In" && *number == 0 {
            let fault = "must not be 0 for the In operator";
            errors.push(FieldError::invalid(&path, *number, fault));
        }
        if !seen.insert(*number) {
            errors.push(FieldError::duplicate(&path, *number));
        }
    }
    if !numbers.is_sorted() {
        errors.push(FieldError::invalid(&path, values.to_vec(), "must be ordered"));
    }
}

/// Validates a required value from a fixed set.
fn validate_choice(errors: &mut FieldErrors, tree: &Value, field: &str, allowed: &[&str], path: &Path) {
    let path = path.child(field);
    match text(tree, field) {
        "" => {
            let list: Vec<String> = allowed.iter().map(|choice| format!("{choice:?}")).collect();
            let detail = format!("valid values: [{}]", list.join(" "));
            errors.push(FieldError::required(&path, detail));
        }
        value if allowed.contains(&value) => {}
        value => errors.push(FieldError::not_supported(&path, value, allowed)),
    }
}
