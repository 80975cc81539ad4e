//! Defaults and validation of RoleBindings and ClusterRoleBindings.

use serde_json::Value;

use super::GROUP;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm, push_faults};
use crate::machinery::names;
use crate::machinery::tree::{child, items, items_mut, object_mut, omit_zero, set, text};

/// Sets the API groups of role and subjects, and removes empty fields.
pub fn default_binding_on_write(binding: &mut Value) {
    metadata::omit_empty(binding);
    omit_zero(binding, &["subjects"]);
    object_mut(binding, "roleRef");
    if let Some(role) = binding.get_mut("roleRef")
        && text(role, "apiGroup").is_empty()
    {
        set(role, "apiGroup", GROUP);
    }
    for subject in items_mut(binding, "subjects") {
        omit_zero(subject, &["apiGroup", "namespace"]);
        if matches!(text(subject, "kind"), "User" | "Group") && text(subject, "apiGroup").is_empty() {
            set(subject, "apiGroup", GROUP);
        }
    }
}

/// Validates a new RoleBinding.
pub fn validate_role_binding(binding: &Value) -> FieldErrors {
    validate(binding, true, &["Role", "ClusterRole"])
}

/// Validates an update of a RoleBinding; `roleRef` is immutable.
pub fn validate_role_binding_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = validate_role_binding(new);
    errors.extend(validate_role_ref_update(new, old));
    errors
}

/// Validates a new ClusterRoleBinding.
pub fn validate_cluster_role_binding(binding: &Value) -> FieldErrors {
    validate(binding, false, &["ClusterRole"])
}

/// Validates an update of a ClusterRoleBinding; `roleRef` is immutable.
pub fn validate_cluster_role_binding_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = validate_cluster_role_binding(new);
    errors.extend(validate_role_ref_update(new, old));
    errors
}

fn validate_role_ref_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update_of_any(new, old);
    let (old_role, new_role) = (child(old, "roleRef"), child(new, "roleRef"));
    if old_role != new_role {
        let path = Path::new("roleRef");
        errors.push(FieldError::invalid(
            &path,
            new_role.clone(),
            "cannot change roleRef",
        ));
    }
    errors
}

fn validate(binding: &Value, is_namespaced: bool, role_kinds: &[&str]) -> FieldErrors {
    let mut errors = metadata::validate(binding, NameForm::PathSegment, is_namespaced);
    let (path, role) = (Path::new("roleRef"), child(binding, "roleRef"));
    if text(role, "apiGroup") != GROUP {
        let path = path.child("apiGroup");
        errors.push(FieldError::not_supported(&path, text(role, "apiGroup"), &[GROUP]));
    }
    if !role_kinds.contains(&text(role, "kind")) {
        let path = path.child("kind");
        errors.push(FieldError::not_supported(&path, text(role, "kind"), role_kinds));
    }
    match text(role, "name") {
        "" => errors.push(FieldError::required(&path.child("name"), "")),
        name => push_faults(&mut errors, &path.child("name"), name, names::path_segment(name)),
    }
    let path = Path::new("subjects");
    for (index, subject) in items(binding, "subjects").iter().enumerate() {
        validate_subject(&mut errors, subject, is_namespaced, &path.index(index));
    }
    errors
}

fn validate_subject(errors: &mut FieldErrors, subject: &Value, is_namespaced: bool, path: &Path) {
    let (name, group) = (text(subject, "name"), text(subject, "apiGroup"));
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                push_faults(errors, &path.child("name"), name, names::dns_subdomain(name));
            }
            if !group.is_empty() {
                errors.push(FieldError::not_supported(&path.child("apiGroup"), group, &[""]));
            }
            if !is_namespaced && text(subject, "namespace").is_empty() {
                errors.push(FieldError::required(&path.child("namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.push(FieldError::not_supported(
                    &path.child("apiGroup"),
                    group,
                    &[GROUP],
                ));
            }
        }
        other => {
            let supported = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(&path.child("kind"), other, &supported));
        }
    }
}
