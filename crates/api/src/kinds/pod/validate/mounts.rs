//! Validation of the mounts and block devices of a container (upstream's `ValidateVolumeMounts` and
//! `ValidateVolumeDevices`).

use std::collections::HashSet;

use serde_json::Value;

use super::references::{has_backstep, validate_descending_path};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::tree::{child, flag_if_set, is_set, items, text};

const PROPAGATIONS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
const RECURSIONS: [&str; 3] = ["Disabled", "Enabled", "IfPossible"];

/// Validates the mounts and devices of a container at `path`.
pub(super) fn validate(errors: &mut FieldErrors, container: &Value, volumes: &HashSet<&str>, path: &Path) {
    validate_mounts(errors, container, volumes, &path.child("volumeMounts"));
    validate_devices(errors, container, volumes, &path.child("volumeDevices"));
}

fn validate_mounts(errors: &mut FieldErrors, container: &Value, volumes: &HashSet<&str>, path: &Path) {
    let is_privileged = flag_if_set(child(container, "securityContext"), "privileged") == Some(true);
    let mut targets = HashSet::new();
    for (index, mount) in items(container, "volumeMounts").iter().enumerate() {
        // As upstream: some fields of a mount have the path of the list.
        let list = path;
        let path = path.index(index);
        validate_volume(errors, text(mount, "name"), volumes, &path.child("name"));
        validate_target(
            errors,
            text(mount, "mountPath"),
            &mut targets,
            &path.child("mountPath"),
        );
        let (part, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
        validate_descending_path(errors, part, &list.child("subPath"));
        if !part.is_empty() && !expression.is_empty() {
            let fault = "subPathExpr and subPath are mutually exclusive";
            errors.push(FieldError::invalid(&path.child("subPathExpr"), expression, fault));
        }
        validate_descending_path(errors, expression, &list.child("subPathExpr"));
        validate_propagation(errors, mount, is_privileged, &list.child("mountPropagation"));
        validate_recursion(errors, mount, &list.child("recursiveReadOnly"));
    }
}

fn validate_volume(errors: &mut FieldErrors, name: &str, volumes: &HashSet<&str>, path: &Path) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    if !volumes.contains(name) {
        errors.push(FieldError::not_found(path, name));
    }
}

fn validate_target<'a>(
    errors: &mut FieldErrors,
    target: &'a str,
    targets: &mut HashSet<&'a str>,
    path: &Path,
) {
    if target.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !targets.insert(target) {
        errors.push(FieldError::invalid(path, target, "must be unique"));
    }
}

fn validate_propagation(errors: &mut FieldErrors, mount: &Value, is_privileged: bool, path: &Path) {
    const FIELD: &str = "mountPropagation";
    let propagation = text(mount, FIELD);
    if !is_set(mount, FIELD) {
        return;
    }
    if !PROPAGATIONS.contains(&propagation) {
        errors.push(FieldError::not_supported(path, propagation, &PROPAGATIONS));
    } else if propagation == "Bidirectional" && !is_privileged {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(FieldError::forbidden(path, detail));
    }
}

fn validate_recursion(errors: &mut FieldErrors, mount: &Value, path: &Path) {
    const FIELD: &str = "recursiveReadOnly";
    let recursion = text(mount, FIELD);
    if !is_set(mount, FIELD) || recursion == "Disabled" {
        return;
    }
    if !RECURSIONS.contains(&recursion) {
        errors.push(FieldError::not_supported(path, recursion, &RECURSIONS));
        return;
    }
    if flag_if_set(mount, "readOnly") != Some(true) {
        let detail = "may only be specified when readOnly is true";
        errors.push(FieldError::forbidden(path, detail));
    }
    if !matches!(text(mount, "mountPropagation"), "" | "None") {
        let detail = "may only be specified when mountPropagation is None or not specified";
        errors.push(FieldError::forbidden(path, detail));
    }
}

fn validate_devices(errors: &mut FieldErrors, container: &Value, volumes: &HashSet<&str>, path: &Path) {
    let mut targets = HashSet::new();
    for (index, device) in items(container, "volumeDevices").iter().enumerate() {
        let path = path.index(index);
        validate_volume(errors, text(device, "name"), volumes, &path.child("name"));
        let (target, at) = (text(device, "devicePath"), path.child("devicePath"));
        validate_target(errors, target, &mut targets, &at);
        if has_backstep(target) {
            let fault = "can not contain backsteps ('..')";
            errors.push(FieldError::invalid(&at, target, fault));
        }
    }
}
