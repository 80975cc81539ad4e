//! Validation of references in containers and volumes: fields of the Pod, resources of containers, paths and modes of
//! files (upstream's `validateObjectFieldSelector`, `validateContainerResourceFieldSelector` and
//! `validateLocalDescendingPath`).

use serde_json::Value;

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::push_faults;
use crate::machinery::names;
use crate::machinery::tree::{child, is_set, number, text};

/// Fields that variables of a container can have as their value.
pub(super) const CONTAINER_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields that files of a volume can have as their content.
pub(super) const VOLUME_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
/// Fields of Pods that the conversion of versions includes, besides those of containers and volumes.
const OTHER_FIELDS: [&str; 4] = [
    "spec.host",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
];
/// Resources of containers that references can name, besides huge pages.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const CPU_DIVISORS: &[&str] = &["1m", "1"];
const BYTE_DIVISORS: &[&str] = &[
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
];
/// Highest mode of a file.
const MODE_MAX: i64 = 0o777;

/// Validates a reference to a field of the Pod, which has to be one of `allowed`.
pub(super) fn validate_field(errors: &mut FieldErrors, reference: &Value, allowed: &[&str], path: &Path) {
    let (version, field) = (text(reference, "apiVersion"), text(reference, "fieldPath"));
    let at = path.child("fieldPath");
    if version.is_empty() {
        errors.push(FieldError::required(&path.child("apiVersion"), ""));
        return;
    }
    if field.is_empty() {
        errors.push(FieldError::required(&at, ""));
        return;
    }
    let map_and_key = field.strip_suffix("']").and_then(|field| field.split_once("['"));
    let map_and_key = map_and_key.filter(|(map, _)| !map.is_empty());
    let fault = match map_and_key {
        _ if version != "v1" => format!("unsupported pod version: {version}"),
        Some(("metadata.annotations", key)) => {
            let faults = names::qualified_name(&key.to_lowercase());
            return push_faults(errors, path, key, faults);
        }
        Some(("metadata.labels", key)) => {
            return push_faults(errors, path, key, names::qualified_name(key));
        }
        Some(_) => format!("field label does not support subscript: {field}"),
        None if !is_known_field(field) => format!("field label not supported: {field}"),
        None => {
            let field = if field == "spec.host" {
                "spec.nodeName"
            } else {
                field
            };
            if !allowed.contains(&field) {
                errors.push(FieldError::not_supported(&at, field, allowed));
            }
            return;
        }
    };
    let fault = format!("error converting fieldPath: {fault}");
    errors.push(FieldError::invalid(&at, field, fault));
}

fn is_known_field(field: &str) -> bool {
    CONTAINER_FIELDS.contains(&field) || VOLUME_FIELDS.contains(&field) || OTHER_FIELDS.contains(&field)
}

/// Validates a reference to a resource of a container, which a volume has to name.
pub(super) fn validate_resource(
    errors: &mut FieldErrors,
    reference: &Value,
    needs_container: bool,
    path: &Path,
) {
    let resource = text(reference, "resource");
    let is_huge_pages = ["limits.hugepages-", "requests.hugepages-"]
        .iter()
        .any(|prefix| resource.starts_with(prefix));
    if needs_container && text(reference, "containerName").is_empty() {
        errors.push(FieldError::required(&path.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(FieldError::required(&path.child("resource"), ""));
    } else if !is_huge_pages && !RESOURCES.contains(&resource) {
        errors.push(FieldError::not_supported(
            &path.child("resource"),
            resource,
            &RESOURCES,
        ));
    }
    let divisor = text(reference, "divisor");
    if divisor.is_empty() || divisor == "0" {
        return;
    }
    let (subject, divisors) = match resource {
        "limits.cpu" | "requests.cpu" => ("cpu", CPU_DIVISORS),
        "limits.memory" | "requests.memory" => ("memory", BYTE_DIVISORS),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => {
            ("local ephemeral storage", BYTE_DIVISORS)
        }
        _ if is_huge_pages => ("hugepages", BYTE_DIVISORS),
        _ => return,
    };
    if !divisors.contains(&divisor) {
        let list = if subject == "cpu" {
            divisors.join(" and ")
        } else {
            divisors.join(", ")
        };
        let fault = format!("only divisor's values {list} are supported with the {subject} resource");
        // As upstream, which shows the resource.
        errors.push(FieldError::invalid(&path.child("divisor"), resource, fault));
    }
}

/// Validates a path below a directory: relative and without `..`.
pub(super) fn validate_descending_path(errors: &mut FieldErrors, file: &str, path: &Path) {
    if file.starts_with('/') {
        errors.push(FieldError::invalid(path, file, "must be a relative path"));
    }
    if has_backstep(file) {
        errors.push(FieldError::invalid(path, file, "must not contain '..'"));
    }
}

/// Validates the path of a file in a volume, where names that start with `..` are reserved.
pub(super) fn validate_file_path(errors: &mut FieldErrors, file: &str, path: &Path) {
    validate_descending_path(errors, file, path);
    if file.starts_with("..") && !file.starts_with("../") {
        errors.push(FieldError::invalid(path, file, "must not start with '..'"));
    }
}

/// Returns true if a part of a path is `..`.
pub(super) fn has_backstep(file: &str) -> bool {
    file.split('/').any(|part| part == "..")
}

/// Validates the mode of files at `field`, which may be absent.
pub(super) fn validate_mode(errors: &mut FieldErrors, tree: &Value, field: &str, path: &Path) {
    let mode = number(tree, field);
    if is_set(tree, field) && !(0..=MODE_MAX).contains(&mode) {
        let fault = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.push(FieldError::invalid(&path.child(field), mode, fault));
    }
}

/// Validates a required text at `field`.
pub(super) fn require(errors: &mut FieldErrors, tree: &Value, field: &str, path: &Path) {
    let is_empty = match child(tree, field) {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    if is_empty {
        errors.push(FieldError::required(&path.child(field), ""));
    }
}
