//! Validation of host ports.

use std::collections::HashSet;

use serde_json::Value;

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::tree::{flag_if_set, items, number, text};

/// Checks that no two containers of a list use the same host port. Init containers run one after the other, so that each is
/// checked for itself.
pub(super) fn validate_distinct(errors: &mut FieldErrors, spec: &Value, list: &str, path: &Path) {
    let (containers, path) = (items(spec, list), path.child(list));
    if list == "containers" {
        return validate_list(errors, containers, &path);
    }
    for container in containers {
        // As upstream, whose errors name the first init container.
        validate_list(errors, std::slice::from_ref(container), &path);
    }
}

fn validate_list(errors: &mut FieldErrors, containers: &[Value], path: &Path) {
    let mut used = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index).child("ports");
        for (at, port) in items(container, "ports").iter().enumerate() {
            let host_port = number(port, "hostPort");
            if host_port == 0 {
                continue;
            }
            let (protocol, ip) = (text(port, "protocol"), text(port, "hostIP"));
            let shown = format!("{protocol}/{ip}/{host_port}");
            if !used.insert((protocol, ip, host_port)) {
                errors.push(FieldError::duplicate(&path.index(at).child("hostPort"), shown));
            }
        }
    }
}

/// Checks that containers in the network of their node listen at their host ports.
pub(super) fn validate_host_network(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    if flag_if_set(spec, "hostNetwork") != Some(true) {
        return;
    }
    for (index, container) in items(spec, "containers").iter().enumerate() {
        let path = path.child("containers").index(index).child("ports");
        for (at, port) in items(container, "ports").iter().enumerate() {
            let host_port = number(port, "hostPort");
            // A template may leave the port to the default of its Pods.
            if host_port != 0 && host_port != number(port, "containerPort") {
                let fault = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(
                    &path.index(at).child("hostPort"),
                    host_port,
                    fault,
                ));
            }
        }
    }
}
