//! Validation of environment variables and their sources (upstream's `ValidateEnv` and `ValidateEnvFrom`).

use std::collections::HashSet;

use serde_json::Value;

use super::references::{self, CONTAINER_FIELDS};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::push_faults;
use crate::machinery::names;
use crate::machinery::tree::{child, is_set, items, text};

/// Sources of a variable.
const SOURCES: [&str; 5] = [
    "fieldRef",
    "resourceFieldRef",
    "configMapKeyRef",
    "secretKeyRef",
    "fileKeyRef",
];
/// Sources of all variables of an object.
const WHOLE_SOURCES: [&str; 2] = ["configMapRef", "secretRef"];
const SEVERAL_SOURCES: &str = "may not have more than one field specified at a time";

/// Validates the variables of a container at `path`.
pub(super) fn validate(errors: &mut FieldErrors, container: &Value, volumes: &HashSet<&str>, path: &Path) {
    for (index, variable) in items(container, "env").iter().enumerate() {
        let path = path.child("env").index(index);
        let name = text(variable, "name");
        if name.is_empty() {
            errors.push(FieldError::required(&path.child("name"), ""));
        } else {
            validate_name(errors, name, &path.child("name"));
        }
        if is_set(variable, "valueFrom") {
            validate_source(errors, variable, volumes, &path.child("valueFrom"));
        }
    }
    validate_whole_sources(errors, container, &path.child("envFrom"));
}

fn validate_name(errors: &mut FieldErrors, name: &str, path: &Path) {
    if !name.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        let fault = "a valid environment variable name must consist only of printable ASCII characters other than '='";
        errors.push(FieldError::invalid(path, name, fault));
    }
}

fn validate_source(errors: &mut FieldErrors, variable: &Value, volumes: &HashSet<&str>, path: &Path) {
    let from = child(variable, "valueFrom");
    let mut count = 0;
    for source in SOURCES.into_iter().filter(|source| is_set(from, source)) {
        count += 1;
        let (reference, path) = (child(from, source), path.child(source));
        match source {
            "fieldRef" => references::validate_field(errors, reference, &CONTAINER_FIELDS, &path),
            "resourceFieldRef" => references::validate_resource(errors, reference, false, &path),
            "fileKeyRef" => validate_file_key(errors, reference, volumes, &path),
            _ => validate_key(errors, reference, &path),
        }
    }
    let fault = match count {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if !text(variable, "value").is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => SEVERAL_SOURCES,
    };
    errors.push(FieldError::invalid(path, "", fault));
}

/// Validates a key of a ConfigMap or Secret.
fn validate_key(errors: &mut FieldErrors, reference: &Value, path: &Path) {
    let (name, key) = (text(reference, "name"), text(reference, "key"));
    push_faults(errors, &path.child("name"), name, names::dns_subdomain(name));
    if key.is_empty() {
        errors.push(FieldError::required(&path.child("key"), ""));
    } else {
        push_faults(errors, &path.child("key"), key, names::config_key(key));
    }
}

fn validate_file_key(errors: &mut FieldErrors, reference: &Value, volumes: &HashSet<&str>, path: &Path) {
    for field in ["key", "volumeName", "path"] {
        if text(reference, field).is_empty() {
            errors.push(FieldError::required(&path.child(field), ""));
        }
    }
    references::validate_file_path(errors, text(reference, "path"), &path.child("path"));
    let volume = text(reference, "volumeName");
    if !volumes.contains(volume) {
        errors.push(FieldError::not_found(&path.child("volumeName"), volume));
    }
}

fn validate_whole_sources(errors: &mut FieldErrors, container: &Value, path: &Path) {
    for (index, entry) in items(container, "envFrom").iter().enumerate() {
        // As upstream: the number of sources is a fault of the list.
        let list = path;
        let path = path.index(index);
        let prefix = text(entry, "prefix");
        if !prefix.is_empty() {
            validate_name(errors, prefix, &path.child("prefix"));
        }
        let mut count = 0;
        for source in WHOLE_SOURCES.into_iter().filter(|source| is_set(entry, source)) {
            count += 1;
            let (name, path) = (
                text(child(entry, source), "name"),
                path.child(source).child("name"),
            );
            if name.is_empty() {
                errors.push(FieldError::required(&path, ""));
            } else {
                push_faults(errors, &path, name, names::dns_subdomain(name));
            }
        }
        match count {
            0 => {
                let fault = "must specify one of: `configMapRef` or `secretRef`";
                errors.push(FieldError::invalid(list, "", fault));
            }
            1 => {}
            _ => errors.push(FieldError::invalid(list, "", SEVERAL_SOURCES)),
        }
    }
}
