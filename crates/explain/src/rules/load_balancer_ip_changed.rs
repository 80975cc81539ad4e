//! PTL-0023: the load balancer has another address than requested.

use std::net::IpAddr;

use super::service_terminating;
use crate::facts::address_request::requests;
use crate::facts::pools::{POOL_ANNOTATIONS, pools};
use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::Subject;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("load_balancer_ip_changed.md"),
    explained_by: &[service_terminating::CODE],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(23);

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    let assigned = service.ingress_ips();
    if service.kind() != "LoadBalancer" || assigned.is_empty() {
        return Vec::new();
    }
    let Some((field, requested)) = requests(service).next() else {
        return other_pool(subject, &assigned).into_iter().collect();
    };
    let missing: Vec<String> = requested
        .iter()
        .filter(|address| !assigned.contains(address))
        .map(IpAddr::to_string)
        .collect();
    // The annotations contradict each other (PTL-0034), and the controller used another one.
    let is_other_met = requests(service).any(|(_, addresses)| addresses == assigned);
    if missing.is_empty() || is_other_met {
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

/// Reports that the requested pool exists, and the address is of another one.
fn other_pool(subject: &Subject<'_>, assigned: &[IpAddr]) -> Option<Finding> {
    let service = subject.service;
    let mut requests = POOL_ANNOTATIONS
        .iter()
        .filter_map(|name| Some((*name, service.0.annotation(name)?.trim())));
    let (name, requested_name) = requests.next()?;
    let pools = pools(subject.world);
    let requested = pools.iter().find(|pool| pool.object.name == requested_name)?;
    let address = assigned.iter().find(|address| !requested.contains(**address))?;
    let holder = pools.iter().find(|pool| pool.contains(*address))?;
    let message = format!(
        "Service {} requests the pool {requested_name}, but has {address} of the pool {}",
        service.name, holder.object.name
    );
    let remedy = format!(
        "Request the pool {}, or create the Service again: {}",
        holder.object.name,
        kubectl::command("edit", service.0)
    );
    let field = format!("metadata.annotations[{name}]");
    requested
        .is_readable()
        .then(|| subject.finding(CODE, Severity::Warning, field, message, remedy))
}
