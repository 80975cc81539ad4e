//! Validation of Ingresses: rules, paths, TLS and status.

use std::collections::HashSet;

use serde_json::Value;

use super::CLASS_ANNOTATION;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm, push_faults};
use crate::machinery::tree::{child, entries, is_set, items, number, text, text_if_set, texts};
use crate::machinery::{ip, names};

/// Path types, sorted.
const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
/// Sequences that are ambiguous in a path.
const INVALID_SEQUENCES: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
/// Ends that are ambiguous in a path.
const INVALID_SUFFIXES: [&str; 2] = ["/..", "/."];
const ABSOLUTE: &str = "must be an absolute path";

/// Validates a new Ingress. The annotation of the class and the field are equal if both are present.
pub fn validate_ingress(ingress: &Value) -> FieldErrors {
    let mut errors = metadata::validate(ingress, NameForm::DnsSubdomain, true);
    let spec = child(ingress, "spec");
    validate_spec(&mut errors, spec);
    let mut annotations = entries(child(ingress, "metadata"), "annotations");
    let annotated = annotations.find(|(key, _)| *key == CLASS_ANNOTATION);
    if let (Some((_, annotated)), Some(class)) = (annotated, text_if_set(spec, "ingressClassName"))
        && annotated != class
    {
        let path = Path::new("annotations").child(CLASS_ANNOTATION);
        let fault = "must match `ingressClassName` when both are specified";
        errors.push(FieldError::invalid(&path, annotated, fault));
    }
    errors
}

/// Validates an update. Upstream validates the metadata once more as those of a new object.
pub fn validate_ingress_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    errors.extend(metadata::validate(new, NameForm::DnsSubdomain, true));
    validate_spec(&mut errors, child(new, "spec"));
    errors
}

/// Validates an update of the status.
pub fn validate_ingress_status_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    let balancer = |ingress| child(child(ingress, "status"), "loadBalancer");
    let path = Path::new("status").child("loadBalancer").child("ingress");
    let former = items(balancer(old), "ingress").iter();
    let former: HashSet<&str> = former.map(|entry| text(entry, "ip")).collect();
    for (index, entry) in items(balancer(new), "ingress").iter().enumerate() {
        let path = path.index(index);
        let (address, hostname) = (text(entry, "ip"), text(entry, "hostname"));
        if !address.is_empty() {
            errors.extend(ip::validate(&path.child("ip"), address, &former));
        }
        if !hostname.is_empty() {
            let path = path.child("hostname");
            push_faults(&mut errors, &path, hostname, names::dns_subdomain(hostname));
            reject_address(&mut errors, hostname, &path);
        }
    }
    errors
}

fn validate_spec(errors: &mut FieldErrors, spec: &Value) {
    let path = Path::new("spec");
    let rules = items(spec, "rules");
    if rules.is_empty() && !is_set(spec, "defaultBackend") {
        let fault = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid(&path, Value::Null, fault));
    }
    if is_set(spec, "defaultBackend") {
        validate_backend(
            errors,
            child(spec, "defaultBackend"),
            &path.child("defaultBackend"),
        );
    }
    for (index, rule) in rules.iter().enumerate() {
        validate_rule(errors, rule, &path.child("rules").index(index));
    }
    for (index, tls) in items(spec, "tls").iter().enumerate() {
        validate_tls(errors, tls, &path.child("tls").index(index));
    }
    if let Some(class) = text_if_set(spec, "ingressClassName") {
        let path = path.child("ingressClassName");
        push_faults(errors, &path, class, names::dns_subdomain(class));
    }
}

fn validate_tls(errors: &mut FieldErrors, tls: &Value, path: &Path) {
    for (index, host) in texts(tls, "hosts").into_iter().enumerate() {
        let path = path.child("hosts").index(index);
        push_faults(errors, &path, host, host_faults(host));
    }
    let secret = text(tls, "secretName");
    if !secret.is_empty() {
        let path = path.child("secretName");
        push_faults(errors, &path, secret, names::dns_subdomain(secret));
    }
}

fn validate_rule(errors: &mut FieldErrors, rule: &Value, path: &Path) {
    let host = text(rule, "host");
    if !host.is_empty() {
        let path = path.child("host");
        reject_address(errors, host, &path);
        push_faults(errors, &path, host, host_faults(host));
    }
    if !is_set(rule, "http") {
        return;
    }
    let (paths, path) = (
        items(child(rule, "http"), "paths"),
        path.child("http").child("paths"),
    );
    if paths.is_empty() {
        errors.push(FieldError::required(&path, ""));
    }
    for (index, entry) in paths.iter().enumerate() {
        validate_path(errors, entry, &path.index(index));
    }
}

fn host_faults(host: &str) -> Vec<String> {
    if host.contains('*') {
        names::wildcard_dns_subdomain(host)
    } else {
        names::dns_subdomain(host)
    }
}

fn reject_address(errors: &mut FieldErrors, host: &str, path: &Path) {
    if ip::parse_legacy(host).is_some() {
        let fault = "must be a DNS name, not an IP address";
        errors.push(FieldError::invalid(path, host, fault));
    }
}

fn validate_path(errors: &mut FieldErrors, entry: &Value, path: &Path) {
    let at = path.child("path");
    let value = text(entry, "path");
    match text_if_set(entry, "pathType") {
        None => {
            let detail = "pathType must be specified";
            errors.push(FieldError::required(&path.child("pathType"), detail));
            return;
        }
        Some("Exact" | "Prefix") => {
            if !value.starts_with('/') {
                errors.push(FieldError::invalid(&at, value, ABSOLUTE));
            }
            for sequence in INVALID_SEQUENCES {
                if value.contains(sequence) {
                    let fault = format!("must not contain '{sequence}'");
                    errors.push(FieldError::invalid(&at, value, fault));
                }
            }
            for suffix in INVALID_SUFFIXES {
                if value.ends_with(suffix) {
                    let fault = format!("cannot end with '{suffix}'");
                    errors.push(FieldError::invalid(&at, value, fault));
                }
            }
        }
        Some("ImplementationSpecific") => {
            if !value.is_empty() && !value.starts_with('/') {
                errors.push(FieldError::invalid(&at, value, ABSOLUTE));
            }
        }
        Some(other) => {
            errors.push(FieldError::not_supported(
                &path.child("pathType"),
                other,
                &PATH_TYPES,
            ));
        }
    }
    validate_backend(errors, child(entry, "backend"), &path.child("backend"));
}

fn validate_backend(errors: &mut FieldErrors, backend: &Value, path: &Path) {
    match (is_set(backend, "service"), is_set(backend, "resource")) {
        (true, true) => {
            let fault = "cannot set both resource and service backends";
            errors.push(FieldError::invalid(path, "", fault));
        }
        (false, true) => validate_reference(errors, child(backend, "resource"), &path.child("resource")),
        (true, false) => validate_service(errors, child(backend, "service"), path),
        (false, false) => {
            let fault = "resource or service backend is required";
            errors.push(FieldError::invalid(path, "", fault));
        }
    }
}

fn validate_service(errors: &mut FieldErrors, service: &Value, path: &Path) {
    let at = path.child("service");
    match text(service, "name") {
        "" => errors.push(FieldError::required(&at.child("name"), "")),
        name => push_faults(errors, &at.child("name"), name, names::dns_label(name)),
    }
    let port = child(service, "port");
    match (text(port, "name"), number(port, "number")) {
        ("", 0) => errors.push(FieldError::required(path, "port name or number is required")),
        ("", value) => {
            let path = at.child("port").child("number");
            for fault in names::port_number(value) {
                errors.push(FieldError::invalid(&path, value, fault));
            }
        }
        (name, 0) => {
            let path = at.child("port").child("name");
            push_faults(errors, &path, name, names::port_name(name));
        }
        _ => {
            let fault = "cannot set both port name & port number";
            errors.push(FieldError::invalid(path, "", fault));
        }
    }
}

/// Validates a reference to an object by group, kind and name.
pub(super) fn validate_reference(errors: &mut FieldErrors, reference: &Value, path: &Path) {
    if let Some(group) = text_if_set(reference, "apiGroup") {
        push_faults(
            errors,
            &path.child("apiGroup"),
            group,
            names::dns_subdomain(group),
        );
    }
    for field in ["kind", "name"] {
        let path = path.child(field);
        match text(reference, field) {
            "" => errors.push(FieldError::required(&path, "")),
            value => push_faults(errors, &path, value, names::path_segment(value)),
        }
    }
}
