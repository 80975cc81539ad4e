//! Validation of `os`, and of the fields that an operating system does not have (upstream's `validateOS`,
//! `validateLinux` and `validateWindows`).

use serde_json::Value;

use crate::kinds::pod::ALL_CONTAINER_LISTS;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::tree::{child, flag_if_set, is_set, items, text};

const CONTEXT: &str = "securityContext";
/// Fields of a Pod's security context that only Linux has.
const LINUX_FIELDS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
];
/// Fields of a container's security context that only Linux has.
const LINUX_CONTAINER_FIELDS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Validates the operating system of a Pod.
pub(super) fn validate(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    if !is_set(spec, "os") {
        return;
    }
    let (pod_context, pod_path) = (child(spec, CONTEXT), path.child(CONTEXT));
    let container_contexts = ALL_CONTAINER_LISTS.into_iter().flat_map(|list| {
        let path = path.child(list);
        let containers = items(spec, list).iter().enumerate();
        containers
            .map(move |(index, container)| (child(container, CONTEXT), path.index(index).child(CONTEXT)))
    });
    match text(child(spec, "os"), "name") {
        "" => errors.push(FieldError::required(&path.child("os").child("name"), "")),
        "linux" => {
            for (context, path) in std::iter::once((pod_context, pod_path)).chain(container_contexts) {
                if is_set(context, "windowsOptions") {
                    let detail = "windows options cannot be set for a linux pod";
                    errors.push(FieldError::forbidden(&path.child("windowsOptions"), detail));
                }
            }
        }
        "windows" => {
            validate_host_fields(errors, spec, path);
            forbid(errors, pod_context, &LINUX_FIELDS, &pod_path);
            for (context, path) in container_contexts {
                forbid(errors, context, &LINUX_CONTAINER_FIELDS, &path);
            }
        }
        other => errors.push(FieldError::not_supported(
            &path.child("os"),
            other,
            &["linux", "windows"],
        )),
    }
}

fn validate_host_fields(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    for field in ["hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"] {
        let is_given = match field {
            "hostPID" | "hostIPC" => flag_if_set(spec, field) == Some(true),
            _ => is_set(spec, field),
        };
        if is_given {
            forbid(errors, spec, &[field], path);
        }
    }
}

fn forbid(errors: &mut FieldErrors, tree: &Value, fields: &[&str], path: &Path) {
    for field in fields {
        let is_empty = matches!(child(tree, field), Value::Array(items) if items.is_empty());
        if is_set(tree, field) && !is_empty {
            let detail = "cannot be set for a windows pod";
            errors.push(FieldError::forbidden(&path.child(field), detail));
        }
    }
}
