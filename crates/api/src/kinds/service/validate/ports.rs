//! Validation of `spec.ports` (VAL-10 to VAL-16, VAL-35 to VAL-37).

use std::collections::HashSet;

use serde_json::Value;

use crate::kinds::ports::{validate_app_protocol, validate_number_and_protocol};
use crate::kinds::service::View;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::push_faults;
use crate::machinery::names;
use crate::machinery::tree::{child, number, text};

/// Validates each port (VAL-10 to VAL-16).
pub(super) fn validate(errors: &mut FieldErrors, service: View<'_>, path: &Path) {
    let ports = service.ports();
    let mut names = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        validate_name(errors, port, ports.len() > 1, &mut names, &path);
        validate_port(errors, port, &path);
    }
}

/// Validates node ports, and the ports against each other (VAL-35 to VAL-37).
pub(super) fn validate_among(errors: &mut FieldErrors, service: View<'_>, path: &Path) {
    let ports = || service.ports().iter().enumerate();
    let node_ports = || ports().filter(|(_, port)| number(port, "nodePort") != 0);
    if service.kind() == "ClusterIP" {
        for (index, _) in node_ports() {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(
                &path.index(index).child("nodePort"),
                detail,
            ));
        }
    }
    let mut seen = HashSet::new();
    for (index, port) in node_ports() {
        let node_port = number(port, "nodePort");
        if !seen.insert((text(port, "protocol"), node_port)) {
            let path = path.index(index).child("nodePort");
            errors.push(FieldError::duplicate(&path, node_port));
        }
    }
    let mut seen = HashSet::new();
    for (index, port) in ports() {
        if !seen.insert((text(port, "protocol"), number(port, "port"))) {
            errors.push(FieldError::duplicate(&path.index(index), port.clone()));
        }
    }
}

fn validate_name<'a>(
    errors: &mut FieldErrors,
    port: &'a Value,
    is_required: bool,
    names: &mut HashSet<&'a str>,
    path: &Path,
) {
    let path = path.child("name");
    let name = text(port, "name");
    if name.is_empty() {
        if is_required {
            errors.push(FieldError::required(&path, ""));
        }
        return;
    }
    push_faults(errors, &path, name, names::dns_label(name));
    if !names.insert(name) {
        errors.push(FieldError::duplicate(&path, name));
    }
}

fn validate_port(errors: &mut FieldErrors, port: &Value, path: &Path) {
    validate_number_and_protocol(errors, port, path);
    let target_path = path.child("targetPort");
    match child(port, "targetPort") {
        Value::String(name) => push_faults(errors, &target_path, name, names::port_name(name)),
        Value::Number(target) => {
            let target = target.as_i64().unwrap_or(i64::MAX);
            for fault in names::port_number(target) {
                errors.push(FieldError::invalid(&target_path, target, fault));
            }
        }
        other => errors.push(FieldError::internal(
            &target_path,
            format!("unknown type: {other}"),
        )),
    }
    validate_app_protocol(errors, port, path);
}
