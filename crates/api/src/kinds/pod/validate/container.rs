//! Validation of a container.

use std::collections::HashSet;

use serde_json::Value;

use super::{environment, handlers, mounts, resources, validate_choice};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::push_faults;
use crate::machinery::names;
use crate::machinery::tree::{child, is_set, items, number, text};

/// Parts of a Pod on which the rules of its containers depend.
pub(super) struct PodParts<'a> {
    /// Names of the valid volumes.
    pub(super) volumes: HashSet<&'a str>,
    /// Names of the resource claims.
    pub(super) claims: HashSet<&'a str>,
    /// Time that the Pod has to stop.
    pub(super) grace_seconds: i64,
}

/// Type of a container, by the list to which it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerType {
    /// `containers`.
    Regular,
    /// `initContainers`.
    Init,
    /// `ephemeralContainers`.
    Ephemeral,
}

/// Validates a container, in upstream's order. `seen` holds the names of earlier containers.
pub(super) fn validate<'a>(
    errors: &mut FieldErrors,
    container: &'a Value,
    container_type: ContainerType,
    pod: &PodParts<'_>,
    seen: &mut HashSet<&'a str>,
    path: &Path,
) {
    let name = text(container, "name");
    let name_path = path.child("name");
    if name.is_empty() {
        errors.push(FieldError::required(&name_path, ""));
    } else {
        push_faults(errors, &name_path, name, names::dns_label(name));
    }
    let image = text(container, "image");
    if image.is_empty() {
        errors.push(FieldError::required(&path.child("image"), ""));
    }
    let policies = ["File", "FallbackToLogsOnError"];
    validate_choice(errors, container, "terminationMessagePolicy", &policies, path);
    validate_ports(errors, container, &path.child("ports"));
    environment::validate(errors, container, &pod.volumes, path);
    mounts::validate(errors, container, &pod.volumes, path);
    let policies = ["Always", "IfNotPresent", "Never"];
    validate_choice(errors, container, "imagePullPolicy", &policies, path);
    let requirements = child(container, "resources");
    resources::validate(errors, requirements, &pod.claims, &path.child("resources"));
    if !name.is_empty() && !seen.insert(name) {
        errors.push(FieldError::duplicate(&name_path, name));
    }
    if container_type != ContainerType::Ephemeral {
        validate_lifecycle(errors, container, container_type, pod.grace_seconds, path);
    }
    if image != image.trim() {
        let fault = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(&path.child("image"), image, fault));
    }
}

/// Validates restarts, resizes, hooks and probes, which ephemeral containers do not have.
fn validate_lifecycle(
    errors: &mut FieldErrors,
    container: &Value,
    container_type: ContainerType,
    grace_seconds: i64,
    path: &Path,
) {
    validate_resize_policy(errors, container, &path.child("resizePolicy"));
    let policy = text(container, "restartPolicy");
    if is_set(container, "restartPolicy") {
        let policies = ["Always", "Never", "OnFailure"];
        if !policies.contains(&policy) {
            let path = path.child("restartPolicy");
            errors.push(FieldError::not_supported(&path, policy, &policies));
        }
    }
    if container_type == ContainerType::Init && policy != "Always" {
        handlers::forbid(errors, container, path);
    } else {
        handlers::validate(errors, container, grace_seconds, path);
    }
}

fn validate_resize_policy(errors: &mut FieldErrors, container: &Value, path: &Path) {
    let mut seen = HashSet::new();
    for (index, entry) in items(container, "resizePolicy").iter().enumerate() {
        let (resource, policy) = (text(entry, "resourceName"), text(entry, "restartPolicy"));
        if !seen.insert(resource) {
            errors.push(FieldError::duplicate(&path.index(index), resource));
        }
        // As upstream: faults of an entry have the path of the list.
        for (value, allowed) in [
            (resource, ["cpu", "memory"]),
            (policy, ["NotRequired", "RestartContainer"]),
        ] {
            if !allowed.contains(&value) {
                errors.push(FieldError::not_supported(path, value, &allowed));
            }
        }
    }
}

fn validate_ports(errors: &mut FieldErrors, container: &Value, path: &Path) {
    let mut seen = HashSet::new();
    for (index, port) in items(container, "ports").iter().enumerate() {
        let path = path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            let faults = names::port_name(name);
            let is_well_formed = faults.is_empty();
            push_faults(errors, &path.child("name"), name, faults);
            if is_well_formed && !seen.insert(name) {
                errors.push(FieldError::duplicate(&path.child("name"), name));
            }
        }
        let value = number(port, "containerPort");
        if value == 0 {
            errors.push(FieldError::required(&path.child("containerPort"), ""));
        } else {
            for fault in names::port_number(value) {
                errors.push(FieldError::invalid(&path.child("containerPort"), value, fault));
            }
        }
        let host_port = number(port, "hostPort");
        if host_port != 0 {
            for fault in names::port_number(host_port) {
                errors.push(FieldError::invalid(&path.child("hostPort"), host_port, fault));
            }
        }
        validate_choice(errors, port, "protocol", &["SCTP", "TCP", "UDP"], &path);
    }
}
