//! Validation of ephemeral containers (upstream's `validateEphemeralContainers`).

use std::collections::HashSet;

use serde_json::Value;

use super::container::{self, ContainerType, PodParts};
use crate::kinds::pod::{CONTAINER_LISTS, EPHEMERAL_CONTAINERS};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::tree::{child, items, text};

/// Fields of containers that ephemeral ones cannot have.
const FORBIDDEN: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];
const DETAIL: &str = "cannot be set for an Ephemeral Container";

/// Validates the ephemeral containers of a Pod at `path`. `seen` holds the names of the other containers.
pub(super) fn validate<'a>(
    errors: &mut FieldErrors,
    spec: &'a Value,
    pod: &PodParts<'_>,
    seen: &mut HashSet<&'a str>,
    path: &Path,
) {
    let others = CONTAINER_LISTS.into_iter().flat_map(|list| items(spec, list));
    let others: HashSet<&str> = others.map(|container| text(container, "name")).collect();
    for (index, container) in items(spec, EPHEMERAL_CONTAINERS).iter().enumerate() {
        let path = path.index(index);
        container::validate(errors, container, ContainerType::Ephemeral, pod, seen, &path);
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.push(FieldError::not_found(&path.child("targetContainerName"), target));
        }
        for field in FORBIDDEN {
            if is_given(container, field) {
                errors.push(FieldError::forbidden(&path.child(field), DETAIL));
            }
        }
        for (at, mount) in items(container, "volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !text(mount, field).is_empty() {
                    let path = path.child("volumeMounts").index(at).child(field);
                    errors.push(FieldError::forbidden(&path, DETAIL));
                }
            }
        }
    }
}

/// Returns true if a field has content. Resources are present in each container, also without any.
fn is_given(container: &Value, field: &str) -> bool {
    match child(container, field) {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::String(text) => !text.is_empty(),
        Value::Object(fields) if field == "resources" => !fields.is_empty(),
        _ => true,
    }
}
