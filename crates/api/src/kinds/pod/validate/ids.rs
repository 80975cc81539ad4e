//! Validation of users and groups in security contexts.

use serde_json::Value;

use crate::kinds::pod::ALL_CONTAINER_LISTS;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::tree::{child, is_set, items};

/// Highest user and group (upstream's `IsValidUserID` and `IsValidGroupID`).
const ID_MAX: i64 = 0x7fff_ffff;

/// Validates the users and groups of a Pod and its containers.
pub(super) fn validate(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    const CONTEXT: &str = "securityContext";
    let (pod_context, pod_path) = (child(spec, CONTEXT), path.child(CONTEXT));
    validate_fields(
        errors,
        pod_context,
        &["runAsUser", "runAsGroup", "fsGroup"],
        &pod_path,
    );
    const GROUPS: &str = "supplementalGroups";
    for (index, group) in items(pod_context, GROUPS).iter().enumerate() {
        validate_id(errors, group, &pod_path.child(GROUPS).index(index));
    }
    for list in ALL_CONTAINER_LISTS {
        for (index, container) in items(spec, list).iter().enumerate() {
            let path = path.child(list).index(index).child(CONTEXT);
            validate_fields(
                errors,
                child(container, CONTEXT),
                &["runAsUser", "runAsGroup"],
                &path,
            );
        }
    }
}

fn validate_fields(errors: &mut FieldErrors, context: &Value, fields: &[&str], path: &Path) {
    for field in fields {
        if is_set(context, field) {
            validate_id(errors, child(context, field), &path.child(field));
        }
    }
}

fn validate_id(errors: &mut FieldErrors, value: &Value, path: &Path) {
    let is_valid = value.as_i64().is_some_and(|id| (0..=ID_MAX).contains(&id));
    if !is_valid {
        let fault = format!("must be between 0 and {ID_MAX}, inclusive");
        errors.push(FieldError::invalid(path, value.clone(), fault));
    }
}
