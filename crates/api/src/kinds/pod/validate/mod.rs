//! Validation of new Pods and of Pod templates.

mod affinity;
mod annotations;
mod claims;
mod container;
mod dns_config;
mod environment;
mod ephemeral;
mod handlers;
mod host_ports;
mod host_users;
mod ids;
mod mounts;
mod operating_system;
mod references;
mod resources;
mod scheduling_gates;
mod security_context;
mod stop_signal;
mod sysctls;
mod tolerations;
mod topology_spread;
mod volumes;

use std::collections::HashSet;

use serde_json::Value;

use self::container::{ContainerType, PodParts};
use super::EPHEMERAL_CONTAINERS;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm, push_faults};
use crate::machinery::tree::{child, entries, flag_if_set, is_set, items, number, text, texts};
use crate::machinery::{ip, names};

pub(super) use self::tolerations::validate as validate_tolerations;

/// Validates a new Pod.
pub fn validate_pod(pod: &Value) -> FieldErrors {
    let mut errors = metadata::validate(pod, NameForm::DnsSubdomain, true);
    let (spec, path) = (child(pod, "spec"), Path::new("spec"));
    validate_spec(&mut errors, spec, &path);
    volumes::validate_tokens(&mut errors, spec, &path.child("volumes"));
    annotations::validate(&mut errors, pod);
    if !items(spec, EPHEMERAL_CONTAINERS).is_empty() {
        let path = path.child(EPHEMERAL_CONTAINERS);
        errors.push(FieldError::forbidden(&path, "cannot be set on create"));
    }
    errors
}

/// Validates the spec of a Pod or of a Pod template, at `path`.
pub(crate) fn validate_spec(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    let pod = PodParts {
        volumes: volumes::validate(errors, spec, &path.child("volumes")),
        claims: claims::validate(errors, spec, &path.child("resourceClaims")),
        grace_seconds: number(spec, "terminationGracePeriodSeconds"),
    };
    if items(spec, "containers").is_empty() {
        errors.push(FieldError::required(&path.child("containers"), ""));
    }
    let mut seen = HashSet::new();
    // As upstream: init containers come last.
    for (list, container_type) in [
        ("containers", ContainerType::Regular),
        ("initContainers", ContainerType::Init),
    ] {
        for (index, container) in items(spec, list).iter().enumerate() {
            let path = path.child(list).index(index);
            container::validate(errors, container, container_type, &pod, &mut seen, &path);
        }
        host_ports::validate_distinct(errors, spec, list, path);
    }
    ephemeral::validate(errors, spec, &pod, &mut seen, &path.child(EPHEMERAL_CONTAINERS));
    stop_signal::validate(errors, spec, path);
    host_ports::validate_host_network(errors, spec, path);
    validate_choices(errors, spec, path);
    metadata::validate_labels(errors, &path.child("nodeSelector"), entries(spec, "nodeSelector"));
    ids::validate(errors, spec, path);
    validate_process_namespace(errors, spec, path);
    security_context::validate(errors, spec, path);
    sysctls::validate(errors, spec, path);
    affinity::validate(errors, spec, &path.child("affinity"));
    dns_config::validate(errors, spec, &path.child("dnsConfig"));
    validate_readiness_gates(errors, spec, &path.child("readinessGates"));
    scheduling_gates::validate(errors, spec, path);
    topology_spread::validate(errors, spec, &path.child("topologySpreadConstraints"));
    host_users::validate(errors, spec, path);
    validate_hostname_override(errors, spec, path);
    validate_names_and_deadline(errors, spec, path);
    tolerations::validate(errors, spec, &path.child("tolerations"));
    validate_host_aliases(errors, spec, &path.child("hostAliases"));
    validate_classes(errors, spec, path);
    operating_system::validate(errors, spec, path);
    resources::validate_whole_pod(errors, spec, path);
    resources::validate_overhead(errors, spec, path);
}

/// Validates a required value from a fixed set.
pub(super) fn validate_choice(
    errors: &mut FieldErrors,
    tree: &Value,
    field: &str,
    allowed: &[&str],
    path: &Path,
) {
    match text(tree, field) {
        "" => errors.push(FieldError::required(&path.child(field), "")),
        value if allowed.contains(&value) => {}
        value => errors.push(FieldError::not_supported(&path.child(field), value, allowed)),
    }
}

fn validate_choices(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    let policies = ["Always", "OnFailure", "Never"];
    validate_choice(errors, spec, "restartPolicy", &policies, path);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    validate_choice(errors, spec, "dnsPolicy", &policies, path);
}

/// Checks that the containers do not share two PID namespaces: one of the Pod, and that of the node.
fn validate_process_namespace(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    const FIELD: &str = "shareProcessNamespace";
    if flag_if_set(spec, FIELD) == Some(true) && flag_if_set(spec, "hostPID") == Some(true) {
        let fault = "ShareProcessNamespace and HostPID cannot both be enabled";
        // As upstream, whose internal type has the field there.
        let path = path.child("securityContext").child(FIELD);
        errors.push(FieldError::invalid(&path, true, fault));
    }
}

/// Validates names of the Pod and of objects that it refers to, and its deadline.
fn validate_names_and_deadline(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    const DEADLINE: &str = "activeDeadlineSeconds";
    validate_name(errors, spec, "serviceAccountName", names::dns_subdomain, path);
    validate_name(errors, spec, "nodeName", names::dns_subdomain, path);
    let seconds = number(spec, DEADLINE);
    if is_set(spec, DEADLINE) && seconds < 1 {
        let fault = "must be between 1 and 2147483647, inclusive";
        errors.push(FieldError::invalid(&path.child(DEADLINE), seconds, fault));
    }
    validate_name(errors, spec, "hostname", names::dns_label, path);
    validate_name(errors, spec, "subdomain", names::dns_label, path);
}

/// Validates the names of classes, and the preemption policy.
fn validate_classes(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    validate_name(errors, spec, "priorityClassName", names::dns_subdomain, path);
    validate_name(errors, spec, "runtimeClassName", names::dns_subdomain, path);
    if is_set(spec, "preemptionPolicy") {
        let policies = ["PreemptLowerPriority", "Never"];
        validate_choice(errors, spec, "preemptionPolicy", &policies, path);
    }
}

/// Validates a name that may be absent.
fn validate_name(
    errors: &mut FieldErrors,
    spec: &Value,
    field: &str,
    form: fn(&str) -> Vec<String>,
    path: &Path,
) {
    let value = text(spec, field);
    if !value.is_empty() {
        push_faults(errors, &path.child(field), value, form(value));
    }
}

fn validate_readiness_gates(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    for (index, gate) in items(spec, "readinessGates").iter().enumerate() {
        let condition = text(gate, "conditionType");
        let path = path.index(index).child("conditionType");
        push_faults(errors, &path, condition, names::qualified_name(condition));
    }
}

/// Validates `hostnameOverride`, which is the whole host name of the Pod.
fn validate_hostname_override(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    const FIELD: &str = "hostnameOverride";
    /// Longest host name of Linux.
    const BYTES_MAX: usize = 64;
    if !is_set(spec, FIELD) {
        return;
    }
    let (value, path) = (text(spec, FIELD), path.child(FIELD));
    for other in ["setHostnameAsFQDN", "hostNetwork"] {
        if flag_if_set(spec, other) == Some(true) {
            let detail = format!("may not be specified when {other} is true");
            errors.push(FieldError::forbidden(&path, detail));
        }
    }
    if value.len() > BYTES_MAX {
        errors.push(FieldError::too_long(&path, BYTES_MAX));
    }
    push_faults(errors, &path, value, names::dns_subdomain(value));
}

fn validate_host_aliases(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    for (index, alias) in items(spec, "hostAliases").iter().enumerate() {
        let path = path.index(index);
        errors.extend(ip::validate_new(&path.child("ip"), text(alias, "ip")));
        for (at, hostname) in texts(alias, "hostnames").into_iter().enumerate() {
            push_faults(
                errors,
                &path.child("hostnames").index(at),
                hostname,
                names::dns_subdomain(hostname),
            );
        }
    }
}

#[cfg(test)]
mod tests;
