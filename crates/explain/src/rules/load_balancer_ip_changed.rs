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
/// Annotations with requested addresses, the most specific first.
const ANNOTATIONS: [&str; 4] = [
    "portolan.dev/load-balancer-ips",
    "metallb.io/loadBalancerIPs",
    "metallb.universe.tf/loadBalancerIPs",
    "kube-vip.io/loadbalancerIPs",
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

/// Returns the requested addresses with their field.
fn request(service: Service<'_>) -> Option<(String, Vec<IpAddr>)> {
    let mut annotations = ANNOTATIONS.iter().filter_map(|name| {
        let addresses = addresses(service.annotation(name)?);
        Some((format!("metadata.annotations[{name}]"), addresses))
    });
    let in_spec = || {
        let field = service.text("/spec/loadBalancerIP");
        ("spec.loadBalancerIP".to_owned(), addresses(field))
    };
    let request = annotations.find(|(_, addresses)| !addresses.is_empty());
    Some(request.unwrap_or_else(in_spec)).filter(|(_, addresses)| !addresses.is_empty())
}

/// Reads addresses that are separated by commas.
fn addresses(text: &str) -> Vec<IpAddr> {
    text.split(',')
        .filter_map(|part| part.trim().parse().ok())
        .collect()
}
