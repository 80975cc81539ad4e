//! PTL-0014.

use std::net::IpAddr;

use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::{Subject, about};
use crate::views::Pod;

pub const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("endpoints_edited.md"),
    explained_by: &[Code(21)],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(14);

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if !subject.service.has_selector() {
        return Vec::new();
    }
    let mut findings = of_endpoints(subject);
    findings.extend(of_slices(subject));
    findings
}

fn of_endpoints(subject: &Subject<'_>) -> Vec<Finding> {
    let Some(endpoints) = subject.world.endpoints_of(subject.service) else {
        return Vec::new();
    };
    let foreign = endpoints
        .addresses()
        .filter(|address| is_foreign(subject, address.ip(), address.pod()));
    let finding = foreign.map(|address| {
        let message = format!(
            "Endpoints {} has the address {}, which is the address of no selected Pod. The Service has a selector, so the controller overwrites \
             changes by hand",
            endpoints.name,
            address.text()
        );
        about(endpoints.0, CODE, severity(subject), address.field(), message, remedy(subject))
    });
    finding.take(1).collect()
}

fn of_slices(subject: &Subject<'_>) -> Vec<Finding> {
    let slices = subject.slices().iter().filter(|slice| slice.is_from_selector());
    let foreign = slices.flat_map(|slice| {
        let endpoints = slice.endpoints().enumerate();
        let foreign = endpoints.filter(|(_, endpoint)| is_foreign(subject, endpoint.ip(), endpoint.pod()));
        foreign.map(move |(index, endpoint)| (slice, index, endpoint))
    });
    let finding = foreign.map(|(slice, index, endpoint)| {
        let message = format!(
            "EndpointSlice {} has the address {}, which is the address of no selected Pod. The endpoint controller owns the slice and overwrites \
             changes by hand",
            slice.name,
            endpoint.addresses().next().unwrap_or_default()
        );
        let field = format!("endpoints[{index}].addresses[0]");
        about(slice.0, CODE, Severity::Warning, field, message, remedy(subject))
    });
    finding.take(1).collect()
}

/// Returns true if an address names no Pod, or a Pod that has other addresses. An address of a Pod that is gone is only old.
fn is_foreign(subject: &Subject<'_>, address: Option<IpAddr>, pod: Option<&str>) -> bool {
    let Some(address) = address else { return false };
    let Some(name) = pod else {
        // The controller names the Pod of each address.
        return !subject.has(Kind::Pod) || !subject.selected().iter().any(|pod| pod.ips().contains(&address));
    };
    let pod = subject
        .world
        .object(Kind::Pod, &subject.service.namespace, name)
        .map(Pod);
    pod.is_some_and(|pod| !pod.ips().is_empty() && !pod.ips().contains(&address))
}

/// Without any selected Pod, the addresses are those that the Service is meant to have.
fn severity(subject: &Subject<'_>) -> Severity {
    if subject.has(Kind::Pod) && subject.selected().is_empty() {
        Severity::Error
    } else {
        Severity::Warning
    }
}

fn remedy(subject: &Subject<'_>) -> String {
    format!(
        "Remove the selector, if the endpoints are to be written by hand: {}. Otherwise remove the address",
        kubectl::remove(subject.service.0, "/spec/selector")
    )
}
