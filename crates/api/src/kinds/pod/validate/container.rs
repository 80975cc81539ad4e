//! Validation of a container.

use std::collections::HashSet;

use serde_json::Value;

use super::{resources, validate_choice};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::push_faults;
use crate::machinery::names;
use crate::machinery::tree::{child, is_set, items, number, text};

/// Validates a container, in upstream's order. `seen` holds the names of earlier containers.
pub(super) fn validate<'a>(
    errors: &mut FieldErrors,
    container: &'a Value,
    volumes: &HashSet<&str>,
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
    validate_variables(errors, container, &path.child("env"));
    validate_mounts(errors, container, volumes, &path.child("volumeMounts"));
    validate_choice(
        errors,
        container,
        "imagePullPolicy",
        &["Always", "IfNotPresent", "Never"],
        path,
    );
    resources::validate_container(errors, container, path);
    if !name.is_empty() && !seen.insert(name) {
        errors.push(FieldError::duplicate(&name_path, name));
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if is_set(container, probe) {
            validate_probe(
                errors,
                child(container, probe),
                probe != "readinessProbe",
                &path.child(probe),
            );
        }
    }
    if image != image.trim() {
        let fault = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(&path.child("image"), image, fault));
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

fn validate_variables(errors: &mut FieldErrors, container: &Value, path: &Path) {
    for (index, variable) in items(container, "env").iter().enumerate() {
        let path = path.index(index);
        let name = text(variable, "name");
        if name.is_empty() {
            errors.push(FieldError::required(&path.child("name"), ""));
        } else if !name
            .bytes()
            .all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
        {
            let fault = "a valid environment variable name must consist only of printable ASCII characters \
                other than '='";
            errors.push(FieldError::invalid(&path.child("name"), name, fault));
        }
        if is_set(variable, "valueFrom") && !text(variable, "value").is_empty() {
            let fault = "may not be specified when `value` is not empty";
            errors.push(FieldError::invalid(&path.child("valueFrom"), "", fault));
        }
    }
}

fn validate_mounts(errors: &mut FieldErrors, container: &Value, volumes: &HashSet<&str>, path: &Path) {
    let mut targets = HashSet::new();
    for (index, mount) in items(container, "volumeMounts").iter().enumerate() {
        let path = path.index(index);
        let (name, target) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(&path.child("name"), ""));
        }
        if !volumes.contains(name) {
            errors.push(FieldError::not_found(&path.child("name"), name));
        }
        if target.is_empty() {
            errors.push(FieldError::required(&path.child("mountPath"), ""));
        } else if !targets.insert(target) {
            errors.push(FieldError::invalid(
                &path.child("mountPath"),
                target,
                "must be unique",
            ));
        }
    }
}

fn validate_probe(errors: &mut FieldErrors, probe: &Value, must_succeed_once: bool, path: &Path) {
    const HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];
    let handlers: Vec<&str> = HANDLERS
        .into_iter()
        .filter(|handler| is_set(probe, handler))
        .collect();
    match handlers.as_slice() {
        [] => errors.push(FieldError::required(path, "must specify a handler type")),
        [handler] => validate_handler(errors, child(probe, handler), handler, &path.child(handler)),
        [_, rest @ ..] => {
            for handler in rest {
                let detail = "may not specify more than 1 handler type";
                errors.push(FieldError::forbidden(&path.child(handler), detail));
            }
        }
    }
    const NUMBERS: [&str; 5] = [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "failureThreshold",
        "successThreshold",
    ];
    for field in NUMBERS {
        let value = number(probe, field);
        if value < 0 {
            errors.push(FieldError::invalid(
                &path.child(field),
                value,
                "must be greater than or equal to 0",
            ));
        }
    }
    if must_succeed_once && number(probe, "successThreshold") != 1 {
        let value = number(probe, "successThreshold");
        errors.push(FieldError::invalid(
            &path.child("successThreshold"),
            value,
            "must be 1",
        ));
    }
}

fn validate_handler(errors: &mut FieldErrors, handler: &Value, kind: &str, path: &Path) {
    if kind == "exec" {
        if items(handler, "command").is_empty() {
            errors.push(FieldError::required(&path.child("command"), ""));
        }
        return;
    }
    if kind == "httpGet" {
        if text(handler, "path").is_empty() {
            errors.push(FieldError::required(&path.child("path"), ""));
        }
        validate_choice(errors, handler, "scheme", &["HTTP", "HTTPS"], path);
    }
    let path = path.child("port");
    match child(handler, "port") {
        Value::String(name) => push_faults(errors, &path, name, names::port_name(name)),
        other => {
            let value = other.as_i64().unwrap_or_default();
            for fault in names::port_number(value) {
                errors.push(FieldError::invalid(&path, value, fault));
            }
        }
    }
}
