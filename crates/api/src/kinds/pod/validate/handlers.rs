//! Validation of probes and of lifecycle hooks (upstream's `validateProbe` and `validateLifecycle`).

use serde_json::Value;

use super::validate_choice;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::push_faults;
use crate::machinery::names;
use crate::machinery::tree::{child, is_set, items, number, text};

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const PROBE_HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];
const HOOK_HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "sleep"];

/// Validates the hooks and probes of a container that runs until it is stopped. The Pod has `grace_seconds` to stop.
pub(super) fn validate(errors: &mut FieldErrors, container: &Value, grace_seconds: i64, path: &Path) {
    let lifecycle = child(container, "lifecycle");
    for hook in ["postStart", "preStop"] {
        if is_set(lifecycle, hook) {
            let path = path.child("lifecycle").child(hook);
            validate_handlers(
                errors,
                child(lifecycle, hook),
                &HOOK_HANDLERS,
                grace_seconds,
                &path,
            );
        }
    }
    for probe in PROBES {
        if is_set(container, probe) {
            validate_probe(
                errors,
                child(container, probe),
                probe == "readinessProbe",
                &path.child(probe),
            );
        }
    }
}

/// Rejects hooks and probes of an init container that runs to completion.
pub(super) fn forbid(errors: &mut FieldErrors, container: &Value, path: &Path) {
    for field in ["lifecycle"].into_iter().chain(PROBES) {
        if is_set(container, field) {
            let detail = "may not be set for init containers without restartPolicy=Always";
            errors.push(FieldError::forbidden(&path.child(field), detail));
        }
    }
}

fn validate_handlers(
    errors: &mut FieldErrors,
    tree: &Value,
    kinds: &[&str],
    grace_seconds: i64,
    path: &Path,
) {
    let mut given = kinds.iter().filter(|kind| is_set(tree, kind));
    match given.next() {
        None => errors.push(FieldError::required(path, "must specify a handler type")),
        Some(&"sleep") => validate_sleep(errors, tree, grace_seconds, path),
        Some(kind) => validate_handler(errors, child(tree, kind), kind, &path.child(kind)),
    }
    for kind in given {
        let detail = "may not specify more than 1 handler type";
        errors.push(FieldError::forbidden(&path.child(kind), detail));
    }
}

fn validate_sleep(errors: &mut FieldErrors, hook: &Value, grace_seconds: i64, path: &Path) {
    let seconds = number(child(hook, "sleep"), "seconds");
    if !(0..=grace_seconds).contains(&seconds) {
        let fault =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})");
        errors.push(FieldError::invalid(&path.child("sleep"), seconds, fault));
    }
}

fn validate_probe(errors: &mut FieldErrors, probe: &Value, is_readiness: bool, path: &Path) {
    validate_handlers(errors, probe, &PROBE_HANDLERS, 0, path);
    const NUMBERS: [&str; 5] = [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
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
    const GRACE: &str = "terminationGracePeriodSeconds";
    let (grace, grace_path) = (number(probe, GRACE), path.child(GRACE));
    if is_set(probe, GRACE) && grace <= 0 {
        errors.push(FieldError::invalid(&grace_path, grace, "must be greater than 0"));
    }
    if is_readiness {
        if is_set(probe, GRACE) {
            let fault = "must not be set for readinessProbes";
            errors.push(FieldError::invalid(&grace_path, grace, fault));
        }
    } else if number(probe, "successThreshold") != 1 {
        let path = path.child("successThreshold");
        errors.push(FieldError::invalid(
            &path,
            number(probe, "successThreshold"),
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
    if kind == "httpGet" && text(handler, "path").is_empty() {
        errors.push(FieldError::required(&path.child("path"), ""));
    }
    let port = path.child("port");
    match child(handler, "port") {
        Value::String(name) => push_faults(errors, &port, name, names::port_name(name)),
        other => {
            let value = other.as_i64().unwrap_or_default();
            for fault in names::port_number(value) {
                errors.push(FieldError::invalid(&port, value, fault));
            }
        }
    }
    if kind == "httpGet" {
        validate_choice(errors, handler, "scheme", &["HTTP", "HTTPS"], path);
        for header in items(handler, "httpHeaders") {
            validate_header(errors, text(header, "name"), &path.child("httpHeaders"));
        }
    }
}

fn validate_header(errors: &mut FieldErrors, name: &str, path: &Path) {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    if name.is_empty() || !name.bytes().all(is_plain) {
        let fault = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', \
                     regex used for validation is '[-A-Za-z0-9]+')";
        errors.push(FieldError::invalid(path, name, fault));
    }
}
