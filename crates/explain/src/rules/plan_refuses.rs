//! PTL-0036: the plan of a node refuses the connections.

use std::collections::BTreeSet;
use std::net::IpAddr;

use plan::{Family, Target};

use super::{
    address_family, endpoint_address_unusable, endpoints_edited, endpoints_missing, node_unusable,
    other_proxy, pods_not_ready, pods_not_running, protocol_mismatch, selector_matches_no_pod,
    selector_matches_other_app, service_terminating, slice_port_name, slice_without_service,
    target_port_name_protocol, target_port_name_undeclared, target_port_numeric_name,
};
use crate::facts::service_plan::{internal_target, plan_of};
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::Subject;
use crate::views::{Pod, Port};

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("plan_refuses.md"),
    explained_by: &[
        selector_matches_no_pod::CODE,
        selector_matches_other_app::CODE,
        pods_not_ready::CODE,
        pods_not_running::CODE,
        target_port_numeric_name::CODE,
        target_port_name_undeclared::CODE,
        target_port_name_protocol::CODE,
        protocol_mismatch::CODE,
        endpoints_missing::CODE,
        slice_without_service::CODE,
        endpoints_edited::CODE,
        slice_port_name::CODE,
        endpoint_address_unusable::CODE,
        service_terminating::CODE,
        other_proxy::CODE,
        address_family::CODE,
        node_unusable::CODE,
    ],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(36);

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    if !subject.has(Kind::EndpointSlice) || subject.is_rolling() {
        return Vec::new();
    }
    let Some(plan) = plan_of(subject, subject.node.unwrap_or_default()) else {
        return Vec::new();
    };
    let mut findings: Vec<Finding> = Vec::new();
    for planned in plan
        .ports()
        .filter(|planned| internal_target(planned) == Some(Target::Reject))
    {
        let mut ports = service.ports().into_iter();
        let port = ports
            .find(|port| *port.name == *planned.key.port && port.protocol == planned.key.protocol.as_str());
        let finding = port.and_then(|port| refused_port(subject, port, planned.key.family));
        findings.extend(finding.filter(|finding| findings.iter().all(|other| other.field != finding.field)));
    }
    if findings.is_empty() {
        findings.extend(outdated_endpoints(subject).or_else(|| partly_outdated(subject)));
    }
    findings
}

/// Reports that the endpoints of the plan no longer belong to a Pod of the Service, and the slices have no ready Pod.
/// Each connection times out.
fn outdated_endpoints(subject: &Subject<'_>) -> Option<Finding> {
    if !subject.service.has_selector() || !subject.has(Kind::Pod) || subject.service.is_headless() {
        return None;
    }
    let slices = || {
        subject
            .slices()
            .iter()
            .filter(|slice| subject.is_from_selector(**slice))
    };
    let used: BTreeSet<IpAddr> = slices()
        .flat_map(|slice| slice.endpoints())
        .filter(|endpoint| endpoint.is_serving())
        .filter_map(|endpoint| endpoint.ip())
        .collect();
    let pod_addresses: BTreeSet<IpAddr> = subject.selected().iter().flat_map(|pod| pod.ips()).collect();
    let pod = subject
        .active()
        .find(|pod| pod.is_ready() && !pod.ips().is_empty())?;
    let slice = slices().next()?;
    // A user edited a slice that names no Pod, or a Pod with other addresses: PTL-0014 reports it.
    let is_present = |name: &str| {
        let pod = subject.world.object(Kind::Pod, &subject.service.namespace, name);
        pod.is_some()
    };
    let mut endpoints = slices().flat_map(|slice| slice.endpoints());
    let is_edited = endpoints.any(|endpoint| endpoint.pod().is_none_or(is_present));
    if is_edited || used.is_empty() || !used.is_disjoint(&pod_addresses) {
        return None;
    }
    let message = format!(
        "The plan of each node leads connections of Service {} to addresses that no selected Pod has. Pod {} is ready, and EndpointSlice {} is \
         older than the Pod",
        subject.service.name, pod.name, slice.name
    );
    Some(subject.finding(
        CODE,
        Severity::Error,
        "spec.selector",
        message,
        controller_remedy(subject),
    ))
}

/// Reports that the slices have an endpoint whose Pod was deleted, or lack a Pod that is ready.
fn partly_outdated(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    if !service.has_selector() || subject.active().next().is_none() {
        return None;
    }
    let slices = || {
        subject
            .slices()
            .iter()
            .filter(|slice| subject.is_from_selector(**slice))
    };
    let slice = slices().next()?;
    let endpoints = || slices().flat_map(|slice| slice.endpoints());
    let is_gone = |name: &str| {
        let pod = subject.world.object(Kind::Pod, &service.namespace, name);
        pod.is_none()
    };
    let mut used = endpoints().filter(|endpoint| endpoint.is_ready() && !endpoint.is_terminating());
    let gone = used.find_map(|endpoint| endpoint.pod().filter(|name| is_gone(name)));
    let listed: BTreeSet<IpAddr> = endpoints().filter_map(|endpoint| endpoint.ip()).collect();
    let is_missing = |pod: &Pod<'_>| {
        let addresses = pod.ips();
        pod.is_ready() && !addresses.is_empty() && addresses.iter().all(|address| !listed.contains(address))
    };
    let message = match gone {
        Some(name) => format!(
            "EndpointSlice {} of Service {} has Pod {name}, which does not exist: connections to it time out",
            slice.name, service.name
        ),
        None => format!(
            "Pod {} is ready, and no EndpointSlice of Service {} has its address: it gets no connections",
            subject.active().find(is_missing)?.name,
            service.name
        ),
    };
    Some(subject.finding(
        CODE,
        Severity::Warning,
        "spec.selector",
        message,
        controller_remedy(subject),
    ))
}

/// Returns the step that makes the endpoint controller write the slices again.
fn controller_remedy(subject: &Subject<'_>) -> String {
    format!(
        "The endpoint controller writes the slices. Start it, or find the error in its log. State of the slices: kubectl -n {} get endpointslices \
         -l kubernetes.io/service-name={}",
        subject.service.namespace, subject.service.name
    )
}

fn refused_port(subject: &Subject<'_>, port: Port<'_>, family: Family) -> Option<Finding> {
    let service = subject.service;
    let reason = if service.has_selector() {
        ready_pod_without_endpoint(subject, port, family)?
    } else {
        endpoints_not_ready(subject)?
    };
    let place = subject
        .node
        .map_or_else(|| "each node".to_owned(), |node| format!("node {node}"));
    let message = format!(
        "The plan of {place} refuses port {port} of Service {}: {reason}",
        service.name
    );
    let remedy = if service.has_selector() {
        controller_remedy(subject)
    } else {
        let slice = subject.slices().first()?;
        format!("Correct the slice: {}", kubectl::command("edit", slice.0))
    };
    Some(subject.finding(CODE, Severity::Error, port.field("port"), message, remedy))
}

/// A ready Pod exists that the slices do not have as a ready endpoint. Without a ready Pod, other rules name the cause.
fn ready_pod_without_endpoint(subject: &Subject<'_>, port: Port<'_>, family: Family) -> Option<String> {
    let mut ready = subject
        .active()
        .filter(|pod| pod.is_ready() && pod.resolve(port.target, port.protocol).is_some());
    let addresses_of = |pod: Pod<'_>| {
        let mut addresses = pod.ips();
        addresses.retain(|address| Family::of(*address) == family);
        addresses
    };
    let pod: Pod<'_> = ready.find(|pod| !addresses_of(*pod).is_empty())?;
    let slices = || {
        subject
            .slices()
            .iter()
            .filter(|slice| slice.address_type() == family.name())
    };
    let Some(first) = slices().next() else {
        return Some(format!(
            "Pod {} is ready, and no {} EndpointSlice names the Service",
            pod.name,
            family.name()
        ));
    };
    let addresses = addresses_of(pod);
    let listed = slices().find_map(|slice| {
        let mut endpoints = slice.endpoints();
        let endpoint = endpoints.find(|endpoint| endpoint.ip().is_some_and(|ip| addresses.contains(&ip)))?;
        Some((slice, endpoint))
    });
    Some(match listed {
        None => format!(
            "Pod {} is ready, and no EndpointSlice has its address. EndpointSlice {} is older than the Pod or its state",
            pod.name, first.name
        ),
        Some((slice, endpoint)) if !endpoint.is_ready() => {
            format!(
                "Pod {} is ready, and EndpointSlice {} lists it as not ready",
                pod.name, slice.name
            )
        }
        Some((slice, _)) => format!(
            "EndpointSlice {} has no port {:?} of the protocol {}",
            slice.name, port.name, port.protocol
        ),
    })
}

/// Returns the endpoints that are not ready, in slices of a Service without selector.
fn endpoints_not_ready(subject: &Subject<'_>) -> Option<String> {
    let slices = subject
        .slices()
        .iter()
        .filter(|slice| slice.endpoints().next().is_some());
    let slice = slices
        .clone()
        .find(|slice| slice.endpoints().all(|endpoint| !endpoint.is_ready()))?;
    let has_ready = slices
        .flat_map(|slice| slice.endpoints())
        .any(|endpoint| endpoint.is_ready());
    (!has_ready).then(|| format!("no endpoint of EndpointSlice {} is ready", slice.name))
}
