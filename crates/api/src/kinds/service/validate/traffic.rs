//! Validation of load balancer fields and traffic policies (VAL-41, VAL-42, VAL-44 to VAL-47, VAL-49, VAL-50).

use crate::kinds::service::View;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::push_faults;
use crate::machinery::names;
use crate::machinery::tree::{is_set, text_if_set};

const POLICIES: [&str; 2] = ["Cluster", "Local"];
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameNode", "PreferSameZone"];
const ONLY_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

/// Validates `allocateLoadBalancerNodePorts` and `loadBalancerClass`.
pub(super) fn validate_load_balancer(errors: &mut FieldErrors, service: View<'_>, spec: &Path) {
    let is_allocation_set = is_set(service.spec, "allocateLoadBalancerNodePorts");
    if service.is_load_balancer() && !is_allocation_set {
        // Upstream omits `spec` from this path.
        errors.push(FieldError::required(
            &Path::new("allocateLoadBalancerNodePorts"),
            "",
        ));
    }
    if !service.is_load_balancer() && is_allocation_set {
        errors.push(FieldError::forbidden(
            &spec.child("allocateLoadBalancerNodePorts"),
            ONLY_BALANCERS,
        ));
    }
    validate_class(errors, service, spec);
}

/// Validates `loadBalancerClass`, a qualified name on load balancers only. Updates run it twice, as upstream.
pub(super) fn validate_class(errors: &mut FieldErrors, service: View<'_>, spec: &Path) {
    let Some(class) = text_if_set(service.spec, "loadBalancerClass") else {
        return;
    };
    let path = spec.child("loadBalancerClass");
    if service.is_load_balancer() {
        push_faults(errors, &path, class, names::qualified_name(class));
    } else {
        errors.push(FieldError::forbidden(&path, ONLY_BALANCERS));
    }
}

/// Validates `externalTrafficPolicy` and `healthCheckNodePort`.
pub(super) fn validate_external(errors: &mut FieldErrors, service: View<'_>, spec: &Path) {
    let path = spec.child("externalTrafficPolicy");
    match (
        service.is_externally_accessible(),
        service.external_traffic_policy(),
    ) {
        (false, "") => {}
        (false, policy) => {
            let fault = "may only be set for externally-accessible services";
            errors.push(FieldError::invalid(&path, policy, fault));
        }
        (true, "") => errors.push(FieldError::required(&path, "")),
        (true, policy) if POLICIES.contains(&policy) => {}
        (true, policy) => errors.push(FieldError::not_supported(&path, policy, &POLICIES)),
    }
    let path = spec.child("healthCheckNodePort");
    match (
        service.needs_health_check_node_port(),
        service.health_check_node_port(),
    ) {
        (false, 0) => {}
        (false, port) => {
            let fault =
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.push(FieldError::invalid(&path, port, fault));
        }
        (true, 0) => errors.push(FieldError::required(&path, "")),
        (true, port) => {
            for fault in names::port_number(port) {
                errors.push(FieldError::invalid(&path, port, fault));
            }
        }
    }
}

/// Validates `internalTrafficPolicy` and `trafficDistribution`.
pub(super) fn validate_internal(errors: &mut FieldErrors, service: View<'_>, spec: &Path) {
    let path = spec.child("internalTrafficPolicy");
    match text_if_set(service.spec, "internalTrafficPolicy") {
        None => {
            if matches!(service.kind(), "ClusterIP" | "NodePort" | "LoadBalancer") {
                errors.push(FieldError::required(&path, ""));
            }
        }
        Some(policy) if POLICIES.contains(&policy) => {}
        Some(policy) => errors.push(FieldError::not_supported(&path, policy, &POLICIES)),
    }
    if let Some(distribution) = text_if_set(service.spec, "trafficDistribution")
        && !DISTRIBUTIONS.contains(&distribution)
    {
        let path = spec.child("trafficDistribution");
        errors.push(FieldError::not_supported(&path, distribution, &DISTRIBUTIONS));
    }
}
