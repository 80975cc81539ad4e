//! Defaults and validation of Roles and ClusterRoles.

use serde_json::Value;

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm};
use crate::machinery::selector::LabelSelector;
use crate::machinery::tree::{items, items_mut, omit_null, omit_zero, set, texts};

/// Removes empty fields; `rules` is always serialized.
pub fn default_role_on_write(role: &mut Value) {
    metadata::omit_empty(role);
    omit_null(role, &["aggregationRule"]);
    for rule in items_mut(role, "rules") {
        omit_zero(
            rule,
            &["apiGroups", "resources", "resourceNames", "nonResourceURLs"],
        );
    }
    if items(role, "rules").is_empty() {
        // As upstream, also for an empty list.
        set(role, "rules", Value::Null);
    }
}

/// Validates a new Role.
pub fn validate_role(role: &Value) -> FieldErrors {
    validate(role, true)
}

/// Validates an update of a Role.
pub fn validate_role_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = validate_role(new);
    errors.extend(metadata::validate_update_of_any(new, old));
    errors
}

/// Validates a new ClusterRole.
pub fn validate_cluster_role(role: &Value) -> FieldErrors {
    let mut errors = validate(role, false);
    if let Some(aggregation) = role.get("aggregationRule") {
        validate_selectors(&mut errors, items(aggregation, "clusterRoleSelectors"));
    }
    errors
}

fn validate_selectors(errors: &mut FieldErrors, selectors: &[Value]) {
    let path = Path::new("aggregationRule").child("clusterRoleSelectors");
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(&path, detail));
    }
    for (index, selector) in selectors.iter().enumerate() {
        let path = path.index(index);
        if let Err(faults) = LabelSelector::from_object(&path, selector) {
            errors.extend(faults);
            // As upstream, which does not show the selector.
            errors.push(FieldError::invalid(&path, Value::Null, "invalid label selector."));
        }
    }
}

/// Validates an update of a ClusterRole.
pub fn validate_cluster_role_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = validate_cluster_role(new);
    errors.extend(metadata::validate_update_of_any(new, old));
    errors
}

fn validate(role: &Value, is_namespaced: bool) -> FieldErrors {
    let mut errors = metadata::validate(role, NameForm::PathSegment, is_namespaced);
    let path = Path::new("rules");
    for (index, rule) in items(role, "rules").iter().enumerate() {
        validate_rule(&mut errors, rule, is_namespaced, &path.index(index));
    }
    errors
}

fn validate_rule(errors: &mut FieldErrors, rule: &Value, is_namespaced: bool, path: &Path) {
    let is_empty = |field: &str| items(rule, field).is_empty();
    if is_empty("verbs") {
        errors.push(FieldError::required(
            &path.child("verbs"),
            "verbs must contain at least one value",
        ));
    }
    let urls = texts(rule, "nonResourceURLs");
    if urls.is_empty() {
        for (field, description) in [("apiGroups", "api group"), ("resources", "resource")] {
            if is_empty(field) {
                let detail = format!("resource rules must supply at least one {description}");
                errors.push(FieldError::required(&path.child(field), detail));
            }
        }
        return;
    }
    let path = path.child("nonResourceURLs");
    if is_namespaced {
        let detail = "namespaced rules cannot apply to non-resource URLs";
        errors.push(FieldError::invalid(&path, urls.clone(), detail));
    }
    if !(is_empty("apiGroups") && is_empty("resources") && is_empty("resourceNames")) {
        let detail = "rules cannot apply to both regular resources and non-resource URLs";
        errors.push(FieldError::invalid(&path, urls, detail));
    }
}
