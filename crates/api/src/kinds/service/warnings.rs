//! Warnings for accepted Services (WRN-01 to WRN-07).

use serde_json::Value;

use super::{TOPOLOGY_HINTS_ANNOTATION, TOPOLOGY_MODE_ANNOTATION, View};
use crate::machinery::field::Path;
use crate::machinery::ip;
use crate::machinery::tree::{child, items, text, texts};

/// Warnings for a written Service, in upstream's order.
pub fn warnings(service: &Value) -> Vec<String> {
    let view = View::of(service);
    let mut warnings = Vec::new();
    if view.annotation(TOPOLOGY_HINTS_ANNOTATION).is_some() {
        warnings.push(format!(
            "annotation {TOPOLOGY_HINTS_ANNOTATION} is deprecated, please use {TOPOLOGY_MODE_ANNOTATION} instead"
        ));
    }
    warn_of_addresses(&mut warnings, view, "clusterIPs");
    if view.is_headless() {
        headless_warnings(&mut warnings, view);
    }
    warn_of_addresses(&mut warnings, view, "externalIPs");
    let has_external_ips = !items(view.spec, "externalIPs").is_empty();
    if has_external_ips && !view.is_headless() && !view.is_external_name() {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
        );
    }
    warn_of_load_balancer(&mut warnings, view);
    if has_external_ips && view.is_external_name() {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !view.is_external_name() && !text(view.spec, "externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if text(view.spec, "trafficDistribution") == "PreferClose" {
        warnings.push(
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned(),
        );
    }
    warnings
}

/// Warnings for a written status.
pub fn status_warnings(service: &Value) -> Vec<String> {
    let balancer = child(child(service, "status"), "loadBalancer");
    let path = Path::new("status").child("loadBalancer").child("ingress");
    items(balancer, "ingress")
        .iter()
        .enumerate()
        .filter_map(|(index, ingress)| ip::warning(&path.index(index), text(ingress, "ip")))
        .collect()
}

fn headless_warnings(warnings: &mut Vec<String>, service: View<'_>) {
    if !text(service.spec, "loadBalancerIP").is_empty() {
        warnings.push("spec.loadBalancerIP is ignored for headless services".to_owned());
    }
    if !items(service.spec, "externalIPs").is_empty() {
        warnings.push("spec.externalIPs is ignored for headless services".to_owned());
    }
    if text(service.spec, "sessionAffinity") != "None" {
        warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
    }
}

fn warn_of_addresses(warnings: &mut Vec<String>, service: View<'_>, field: &str) {
    let path = Path::new("spec").child(field);
    let values = texts(service.spec, field).into_iter().enumerate();
    warnings.extend(values.filter_map(|(index, value)| ip::warning(&path.index(index), value)));
}

fn warn_of_load_balancer(warnings: &mut Vec<String>, service: View<'_>) {
    let path = Path::new("spec");
    warnings.extend(ip::warning(
        &path.child("loadBalancerIP"),
        text(service.spec, "loadBalancerIP"),
    ));
    let path = path.child("loadBalancerSourceRanges");
    let ranges = texts(service.spec, "loadBalancerSourceRanges");
    for (index, range) in ranges.into_iter().enumerate() {
        warnings.extend(ip::cidr_warnings(&path.index(index), range));
    }
}
