//! PTL-0014: endpoints are edited by hand, but the Service has a selector.

use std::net::IpAddr;

use super::service_terminating;
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::{Subject, finding_about};
use crate::views::{EndpointSlice, Pod, Port, Target};

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("endpoints_edited.md"),
    explained_by: &[service_terminating::CODE],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(14);

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if !subject.service.has_selector() {
        return Vec::new();
    }
    let mut findings = edited_endpoints(subject);
    findings.extend(edited_slices(subject));
    if findings.is_empty() {
        findings.extend(
            wrong_slice_port(subject)
                .or_else(|| wrong_port(subject))
                .or_else(|| emptied_endpoints(subject)),
        );
    }
    findings
}

/// Reports that the Endpoints have a port number that no selected Pod gives to the port.
fn wrong_port(subject: &Subject<'_>) -> Option<Finding> {
    let endpoints = subject.world.endpoints_of(subject.service)?;
    if !subject.has(Kind::EndpointSlice) {
        return None;
    }
    let (port, number) = other_number(subject, &endpoints.ports().collect::<Vec<_>>())?;
    let message = format!(
        "Endpoints {} has port {number} for port {port} of Service {}, which leads to {} in the selected Pods. The Service has a selector, so the \
         controller overwrites changes by hand",
        endpoints.name, subject.service.name, port.target
    );
    let field = "subsets[0].ports";
    Some(finding_about(
        endpoints.0,
        CODE,
        Severity::Warning,
        field,
        message,
        remedy(subject),
    ))
}

/// Reports that a slice of the controller has a port number that no selected Pod gives to the port.
fn wrong_slice_port(subject: &Subject<'_>) -> Option<Finding> {
    let mut slices = subject
        .slices()
        .iter()
        .filter(|slice| subject.is_from_selector(**slice) && slice.endpoints().next().is_some());
    let (slice, (port, number)) = slices.find_map(|slice| {
        let ports: Vec<_> = slice.ports().collect();
        Some((slice, other_number(subject, &ports)?))
    })?;
    let message = format!(
        "EndpointSlice {} has port {number} for port {port} of Service {}, which leads to {} in the selected Pods. The endpoint controller owns the \
         slice and overwrites changes by hand",
        slice.name, subject.service.name, port.target
    );
    Some(finding_about(
        slice.0,
        CODE,
        Severity::Error,
        "ports",
        message,
        remedy(subject),
    ))
}

/// Returns a port of the Service, and its listed number, if the port of no selected Pod has this number.
fn other_number<'w>(subject: &Subject<'w>, ports: &[(&str, &str, Option<u16>)]) -> Option<(Port<'w>, u16)> {
    if subject.is_rolling() || subject.active().next().is_none() {
        return None;
    }
    let listed = || {
        ports
            .iter()
            .filter_map(|(name, protocol, number)| Some((*name, *protocol, (*number)?)))
    };
    let resolves = |port: &Port<'_>, number: u16| {
        subject
            .active()
            .any(|pod| pod.resolve(port.target, port.protocol) == Some(number))
    };
    // The target port itself can be wrong: PTL-0006 reports it.
    let is_declared = |port: &Port<'_>| match port.target {
        Target::Name(_) => true,
        Target::Number(number) => subject.active().any(|pod| {
            let declared = pod.ports();
            declared.is_empty() || declared.iter().any(|port| port.number == number)
        }),
    };
    let mut declared_ports = subject.service.ports().into_iter().filter(is_declared);
    declared_ports.find_map(|port| {
        let mut same =
            listed().filter(|(name, protocol, _)| *name == port.name && *protocol == port.protocol);
        let (.., number) = same.find(|(.., number)| !resolves(&port, *number))?;
        Some((port, number))
    })
}

/// Reports that the Endpoints are empty or have deleted Pods, although the slices have ready endpoints.
fn emptied_endpoints(subject: &Subject<'_>) -> Option<Finding> {
    let endpoints = subject.world.endpoints_of(subject.service)?;
    // Endpoints have the first family only.
    let family = subject.service.list("/spec/ipFamilies").first();
    let is_first = |slice: &&EndpointSlice<'_>| family.is_none_or(|family| *family == slice.address_type());
    let slices = subject
        .slices()
        .iter()
        .filter(|slice| subject.is_from_selector(**slice));
    let has_ready = slices
        .filter(is_first)
        .flat_map(|slice| slice.endpoints())
        .any(|endpoint| endpoint.is_ready());
    let is_known = subject.has(Kind::EndpointSlice) && subject.active().any(Pod::is_ready);
    let is_gone = |pod: Option<&str>| {
        let object = |name| subject.world.object(Kind::Pod, &subject.service.namespace, name);
        pod.is_some_and(|name| object(name).is_none())
    };
    let has_address = endpoints.addresses().any(|address| !is_gone(address.pod()));
    if has_address || !has_ready || !is_known || subject.is_rolling() {
        return None;
    }
    let message = format!(
        "Endpoints {} has no address of an existing Pod, although Pods of Service {} are ready and its EndpointSlices have them. Clients that read \
         Endpoints find none",
        endpoints.name, subject.service.name
    );
    let remedy = format!(
        "Delete the object, so that the controller writes it again: {}",
        kubectl::command("delete", endpoints.0)
    );
    Some(finding_about(
        endpoints.0,
        CODE,
        Severity::Warning,
        "subsets",
        message,
        remedy,
    ))
}

fn edited_endpoints(subject: &Subject<'_>) -> Vec<Finding> {
    let Some(endpoints) = subject.world.endpoints_of(subject.service) else {
        return Vec::new();
    };
    let names_pods = endpoints.addresses().any(|address| address.pod().is_some());
    let foreign = endpoints
        .addresses()
        .filter(|address| is_foreign(subject, address.ip(), address.pod(), names_pods));
    let finding = foreign.map(|address| {
        let message = format!(
            "Endpoints {} has the address {}, which is the address of no selected Pod. The Service has a selector, so the controller overwrites \
             changes by hand",
            endpoints.name,
            address.text()
        );
        finding_about(endpoints.0, CODE, severity(subject), address.field(), message, remedy(subject))
    });
    finding.take(1).collect()
}

fn edited_slices(subject: &Subject<'_>) -> Vec<Finding> {
    // Other slices can add backends to the Pods. Without a Pod, they are the only ones.
    let is_only = subject.has(Kind::Pod) && subject.selected().is_empty();
    let slices = subject.slices().iter();
    let slices =
        slices.filter(|slice| subject.is_from_selector(**slice) || is_only && slice.is_from_other_writer());
    let foreign = slices.flat_map(|slice| {
        let names_pods = slice.endpoints().any(|endpoint| endpoint.pod().is_some());
        let endpoints = slice.endpoints().enumerate();
        let foreign = endpoints
            .filter(move |(_, endpoint)| is_foreign(subject, endpoint.ip(), endpoint.pod(), names_pods));
        foreign.map(move |(index, endpoint)| (slice, index, endpoint))
    });
    let finding = foreign.map(|(slice, index, endpoint)| {
        let effect = if subject.is_from_selector(*slice) {
            "The endpoint controller owns the slice and overwrites changes by hand"
        } else {
            "The Service has a selector, and no Pod matches it"
        };
        let message = format!(
            "EndpointSlice {} has the address {}, which is the address of no selected Pod. {effect}",
            slice.name,
            endpoint.addresses().next().unwrap_or_default()
        );
        let field = format!("endpoints[{index}].addresses[0]");
        finding_about(slice.0, CODE, severity(subject), field, message, remedy(subject))
    });
    finding.take(1).collect()
}

/// Returns true if an address names no Pod, or a Pod that has other addresses. An address of a deleted Pod is only
/// old. Without Pods in the input, an address without the name of a Pod is foreign alongside others that have one.
fn is_foreign(subject: &Subject<'_>, address: Option<IpAddr>, pod: Option<&str>, names_pods: bool) -> bool {
    let Some(address) = address else { return false };
    let Some(name) = pod else {
        let is_known = subject.has(Kind::Pod);
        return if is_known {
            !subject.selected().iter().any(|pod| pod.ips().contains(&address))
        } else {
            names_pods
        };
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
