//! PTL-0023.

use std::net::IpAddr;

use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::Subject;
use crate::views::Service;

pub const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("load_balancer_ip_changed.md"),
    explained_by: &[Code(21)],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(23);
/// Annotation of Portolan with requested addresses.
const ADDRESSES_ANNOTATION: &str = "portolan.dev/load-balancer-ips";
/// Condition that only Portolan's assigner sets.
const ASSIGNED_CONDITION: &str = "portolan.dev/AddressAssigned";
/// Annotations that MetalLB and Portolan set on Services with an address of a MetalLB pool.
const POOL_ANNOTATIONS: [&str; 2] = [
    "metallb.io/ip-allocated-from-pool",
    "metallb.universe.tf/ip-allocated-from-pool",
];
/// Annotations of MetalLB with requested addresses.
const METALLB_ANNOTATIONS: [&str; 2] = [
    "metallb.io/loadBalancerIPs",
    "metallb.universe.tf/loadBalancerIPs",
];

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    let assigned = service.ingress_ips();
    if service.kind() != "LoadBalancer" || assigned.is_empty() {
        return Vec::new();
    }
    let Some((field, requested)) = request(service) else {
        return Vec::new();
    };
    let missing: Vec<String> = requested
        .iter()
        .filter(|address| !assigned.contains(address))
        .map(IpAddr::to_string)
        .collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let assigned: Vec<String> = assigned.iter().map(IpAddr::to_string).collect();
    let message = format!(
        "Service {} requests the address {}, but has {}",
        service.name,
        missing.join(", "),
        assigned.join(", ")
    );
    let remedy = format!(
        "Request the assigned address, or an address that the controller of load balancers can assign. Its reason is in the Events: {}",
        kubectl::command("describe", service.0)
    );
    let finding = subject.finding(CODE, Severity::Warning, field, message, remedy);
    let reasons = [
        "LoadbalancerIP",
        "LoadBalancerIP",
        "AllocationFailed",
        "SyncLoadBalancerFailed",
    ];
    vec![match subject.world.latest_event(service.0, &reasons) {
        Some(event) => finding.with_evidence(format!("Event {}: {}", event.reason(), event.message())),
        None => finding,
    }]
}

/// Returns the requested addresses with their field. Annotations count if the implementation that reads them assigned the
/// address.
fn request(service: Service<'_>) -> Option<(String, Vec<IpAddr>)> {
    let annotation = |name: &str| {
        Some((
            format!("metadata.annotations[{name}]"),
            addresses(service.annotation(name)?),
        ))
    };
    let is_portolan = service.condition(ASSIGNED_CONDITION).is_some();
    let is_metallb = POOL_ANNOTATIONS
        .iter()
        .any(|name| service.annotation(name).is_some());
    let field = service.text("/spec/loadBalancerIP");
    let in_spec = Some(("spec.loadBalancerIP".to_owned(), addresses(field)));
    annotation(ADDRESSES_ANNOTATION)
        .filter(|_| is_portolan)
        .or_else(|| {
            METALLB_ANNOTATIONS
                .into_iter()
                .find_map(annotation)
                .filter(|_| is_metallb)
        })
        .or(in_spec)
        .filter(|(_, addresses)| !addresses.is_empty())
}

/// Reads addresses that are separated by commas.
fn addresses(text: &str) -> Vec<IpAddr> {
    text.split(',')
        .filter_map(|part| part.trim().parse().ok())
        .collect()
}
