//! Validation of Services (VAL-01 to VAL-60).

mod addresses;
mod ports;
mod status;
mod traffic;
mod transitions;

use serde_json::Value;

use super::{TOPOLOGY_HINTS_ANNOTATION, TOPOLOGY_MODE_ANNOTATION, View};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm};
use crate::machinery::names;
use crate::machinery::tree::{child, entries, is_set, number, text};

pub(super) use addresses::validate_cluster_ips;
pub use status::validate_status_update;

/// Validates a new Service, after defaults and allocation. Errors have upstream's order.
pub fn validate(service: &Value) -> FieldErrors {
    let mut errors = metadata::validate(service, NameForm::DnsLabel, true);
    validate_service(&mut errors, View::of(service), None);
    errors
}

/// Validates an update: the transition, then the new Service. Values of the old Service are exempt from rules that
/// are newer than the field.
pub fn validate_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    let (new, old) = (View::of(new), View::of(old));
    transitions::validate(&mut errors, new, old);
    validate_service(&mut errors, new, Some(old));
    errors
}

fn validate_service(errors: &mut FieldErrors, service: View<'_>, old: Option<View<'_>>) {
    let spec = Path::new("spec");
    validate_topology_annotations(errors, service);
    if service.ports().is_empty() && !service.is_headless() && !service.is_external_name() {
        errors.push(FieldError::required(&spec.child("ports"), ""));
    }
    validate_fields_of_type(errors, service, &spec);
    ports::validate(errors, service, &spec.child("ports"));
    if is_set(service.spec, "selector") {
        let labels = entries(service.spec, "selector");
        metadata::validate_labels(errors, &spec.child("selector"), labels);
    }
    validate_affinity(errors, service, &spec);
    errors.extend(validate_cluster_ips(service, old));
    addresses::validate_external_ips(errors, service, old, &spec);
    validate_type(errors, service, &spec);
    ports::validate_among(errors, service, &spec.child("ports"));
    addresses::validate_source_ranges(errors, service, old, &spec);
    traffic::validate_load_balancer(errors, service, &spec);
    traffic::validate_external(errors, service, &spec);
    traffic::validate_internal(errors, service, &spec);
}

/// Checks that both names of the topology annotation have the same value (VAL-02).
fn validate_topology_annotations(errors: &mut FieldErrors, service: View<'_>) {
    let (mode, hints) = (
        service.annotation(TOPOLOGY_MODE_ANNOTATION),
        service.annotation(TOPOLOGY_HINTS_ANNOTATION),
    );
    if let (Some(mode), Some(hints)) = (mode, hints)
        && mode != hints
    {
        let path = Path::new("metadata")
            .child("annotations")
            .key(TOPOLOGY_MODE_ANNOTATION);
        let fault = format!("must match annotations[{TOPOLOGY_HINTS_ANNOTATION}] when both are specified");
        errors.push(FieldError::invalid(&path, mode, fault));
    }
}

/// Validates `type` (VAL-34).
fn validate_type(errors: &mut FieldErrors, service: View<'_>, spec: &Path) {
    const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    match service.kind() {
        "" => errors.push(FieldError::required(&spec.child("type"), "")),
        kind if TYPES.contains(&kind) => {}
        kind => errors.push(FieldError::not_supported(&spec.child("type"), kind, &TYPES)),
    }
}

/// Validates the fields that a type excludes (VAL-04 to VAL-09).
fn validate_fields_of_type(errors: &mut FieldErrors, service: View<'_>, spec: &Path) {
    match service.kind() {
        kind @ ("LoadBalancer" | "NodePort") if service.is_headless() => {
            let path = spec.child("clusterIPs").index(0);
            let fault = format!("may not be set to 'None' for {kind} services");
            errors.push(FieldError::invalid(&path, super::HEADLESS, fault));
        }
        "ExternalName" => validate_external_name(errors, service, spec),
        _ => {}
    }
}

fn validate_external_name(errors: &mut FieldErrors, service: View<'_>, spec: &Path) {
    const EXCLUDED: &str = "may not be set for ExternalName services";
    if !service.cluster_ips().is_empty() {
        errors.push(FieldError::forbidden(&spec.child("clusterIPs"), EXCLUDED));
    }
    if !service.ip_families().is_empty() {
        errors.push(FieldError::forbidden(&spec.child("ipFamilies"), EXCLUDED));
    }
    if service.ip_family_policy().is_some() {
        errors.push(FieldError::forbidden(&spec.child("ipFamilyPolicy"), EXCLUDED));
    }
    let path = spec.child("externalName");
    let name = text(service.spec, "externalName");
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        errors.push(FieldError::required(&path, ""));
    } else {
        metadata::push_faults(errors, &path, name, names::dns_subdomain(name));
    }
}

/// Validates the session affinity and its configuration (VAL-18 to VAL-20).
fn validate_affinity(errors: &mut FieldErrors, service: View<'_>, spec: &Path) {
    let path = spec.child("sessionAffinityConfig");
    match text(service.spec, "sessionAffinity") {
        "" => errors.push(FieldError::required(&spec.child("sessionAffinity"), "")),
        "None" => {
            if is_set(service.spec, "sessionAffinityConfig") {
                let detail = "must not be set when session affinity is None";
                errors.push(FieldError::forbidden(&path, detail));
            }
        }
        "ClientIP" => validate_affinity_timeout(errors, service, &path),
        other => errors.push(FieldError::not_supported(
            &spec.child("sessionAffinity"),
            other,
            &["ClientIP", "None"],
        )),
    }
}

fn validate_affinity_timeout(errors: &mut FieldErrors, service: View<'_>, path: &Path) {
    const TIMEOUT_SECONDS_MAX: i64 = 86_400;
    const NEEDED: &str = "when session affinity type is ClientIP";
    let config = child(service.spec, "sessionAffinityConfig");
    let client_ip = child(config, "clientIP");
    if config.is_null() {
        errors.push(FieldError::required(path, NEEDED));
    } else if client_ip.is_null() {
        errors.push(FieldError::required(&path.child("clientIP"), NEEDED));
    } else if !is_set(client_ip, "timeoutSeconds") {
        errors.push(FieldError::required(
            &path.child("clientIP").child("timeoutSeconds"),
            NEEDED,
        ));
    } else {
        let seconds = number(client_ip, "timeoutSeconds");
        if !(1..=TIMEOUT_SECONDS_MAX).contains(&seconds) {
            let fault = format!("must be greater than 0 and less than {TIMEOUT_SECONDS_MAX}");
            errors.push(FieldError::invalid(
                &path.child("clientIP").child("timeoutSeconds"),
                seconds,
                fault,
            ));
        }
    }
}
