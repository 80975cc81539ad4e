//! PTL-0013: a hand-made EndpointSlice is not used.

use std::net::IpAddr;

use super::service_terminating;
use crate::facts::similar_names::nearest_name;
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::{Subject, finding_about};
use crate::views::{EndpointSlice, SERVICE_NAME_LABEL, Service};
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("slice_without_service.md"),
    explained_by: &[service_terminating::CODE],
    service: Some(check),
    cluster: Some(check_cluster),
};

pub(super) const CODE: Code = Code(13);

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if subject.service.is_external_name() {
        return Vec::new();
    }
    let mut findings: Vec<Finding> = subject
        .slices()
        .iter()
        .filter(|slice| is_written_by_hand(subject.service, **slice))
        .filter_map(|slice| wrong_address_type(subject.service, *slice))
        .collect();
    if is_waiting(subject.world, subject.service) {
        let slices = subject
            .world
            .in_namespace(Kind::EndpointSlice, &subject.service.namespace);
        let detached = slices
            .map(EndpointSlice)
            .filter(|slice| is_detached(subject.world, *slice) || is_detached_copy(subject.world, *slice));
        let own = detached.filter(|slice| {
            let candidate = candidate(subject.world, *slice);
            candidate.is_some_and(|candidate| candidate.name == subject.service.name)
        });
        findings.extend(own.map(|slice| detached_finding(slice, Some(subject.service))));
        if findings.is_empty() {
            findings.extend(slice_in_another_namespace(subject));
        }
    }
    findings
}

/// The label of the endpoint controller is a copy in a slice of a Service without a selector.
fn is_written_by_hand(service: Service<'_>, slice: EndpointSlice<'_>) -> bool {
    slice.is_from_other_writer() || !service.has_selector() && !slice.is_mirrored()
}

/// Reports that a slice of another namespace names the Service.
fn slice_in_another_namespace(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let mut slices = subject.world.all(Kind::EndpointSlice).map(EndpointSlice);
    let slice = slices.find(|slice| {
        slice.service_name() == Some(service.0.name.as_str()) && is_detached(subject.world, *slice)
    })?;
    let message = format!(
        "EndpointSlice {} names Service {} and is in namespace {}. A Service uses slices of its own namespace {} only",
        slice.name, service.name, slice.namespace, service.namespace
    );
    let remedy = format!(
        "Create the slice in namespace {}, and remove the other one: {}",
        service.namespace,
        kubectl::command("delete", slice.0)
    );
    Some(finding_about(
        slice.0,
        CODE,
        Severity::Error,
        "metadata.namespace",
        message,
        remedy,
    ))
}

/// Reports slices that belong to no Service and that no Service waits for.
fn check_cluster(world: &World) -> Vec<Finding> {
    if !world.has(Kind::Service) {
        return Vec::new();
    }
    let slices = world.all(Kind::EndpointSlice).map(EndpointSlice);
    let detached = slices.filter(|slice| {
        is_detached(world, *slice)
            && candidate(world, *slice).is_none()
            && !is_for_other_namespace(world, *slice)
    });
    detached.map(|slice| detached_finding(slice, None)).collect()
}

/// Returns true if a hand-made slice has no label with its Service, or one that names an absent Service.
fn is_detached(world: &World, slice: EndpointSlice<'_>) -> bool {
    slice.is_from_other_writer() && !is_attached(world, slice) && !slice.is_terminating()
}

/// Returns true for a detached slice with the label of the endpoint controller. The label is a copy, or the Service was
/// deleted a moment ago.
fn is_detached_copy(world: &World, slice: EndpointSlice<'_>) -> bool {
    slice.is_from_selector() && !is_attached(world, slice) && !slice.is_terminating()
}

fn is_attached(world: &World, slice: EndpointSlice<'_>) -> bool {
    slice
        .service_name()
        .is_some_and(|name| world.service(&slice.namespace, name).is_some())
}

/// Returns true if a Service of another namespace with the name in the label waits for endpoints.
fn is_for_other_namespace(world: &World, slice: EndpointSlice<'_>) -> bool {
    let Some(name) = slice.service_name() else {
        return false;
    };
    world
        .services_named(name)
        .any(|service| is_waiting(world, service))
}

/// Returns true if a Service has neither a selector nor slices.
fn is_waiting(world: &World, service: Service<'_>) -> bool {
    let has_slices = world.slices_of(service).next().is_some() || world.endpoints_of(service).is_some();
    !service.has_selector() && !service.is_external_name() && !has_slices
}

/// Returns the waiting Service to which a slice probably belongs. The name of the slice or of its label begins with
/// the name of the Service or resembles it. Otherwise the Service is the only one of the namespace that waits for a
/// hand-made slice.
fn candidate<'w>(world: &'w World, slice: EndpointSlice<'_>) -> Option<Service<'w>> {
    let waiting: Vec<Service<'w>> = world
        .in_namespace(Kind::Service, &slice.namespace)
        .map(Service)
        .filter(|service| is_waiting(world, *service))
        .collect();
    let requested = slice.service_name().unwrap_or(&slice.name);
    let names: Vec<&str> = waiting.iter().map(|service| service.0.name.as_str()).collect();
    let prefix = names.iter().copied().filter(|name| requested.starts_with(name));
    let only = match names.as_slice() {
        [only] if slice.is_from_other_writer() => Some(*only),
        _ => None,
    };
    let best = prefix
        .max_by_key(|name| name.len())
        .or_else(|| nearest_name(requested, names.iter().copied()))
        .or(only)?;
    waiting.iter().copied().find(|service| service.name == best)
}

fn detached_finding(slice: EndpointSlice<'_>, service: Option<Service<'_>>) -> Finding {
    let fault = match slice.service_name() {
        Some(name) => format!("names Service {name}, which does not exist"),
        None => "is missing".to_owned(),
    };
    let (severity, target) = match service {
        Some(service) => (Severity::Error, service.0.name.as_str()),
        None => (Severity::Warning, "SERVICE"),
    };
    let effect = match service {
        Some(service) => format!("Service {} has no endpoints", service.name),
        None => "no Service uses it".to_owned(),
    };
    let message = format!(
        "The label {SERVICE_NAME_LABEL} of EndpointSlice {} {fault}: {effect}",
        slice.name
    );
    let remedy = format!(
        "{} {SERVICE_NAME_LABEL}={target} --overwrite",
        kubectl::command("label", slice.0)
    );
    let field = format!("metadata.labels[{SERVICE_NAME_LABEL}]");
    finding_about(slice.0, CODE, severity, field, message, remedy)
}

/// Returns the finding for a slice whose address type contradicts its addresses, or that no family of the Service uses.
fn wrong_address_type(service: Service<'_>, slice: EndpointSlice<'_>) -> Option<Finding> {
    let kind = slice.address_type();
    let finding = |message: String, remedy: String| {
        Some(finding_about(
            slice.0,
            CODE,
            Severity::Error,
            "addressType",
            message,
            remedy,
        ))
    };
    // The field is immutable.
    let again = |kind: &str| {
        format!(
            "Create the slice again with addressType {kind}: the field is immutable. {}",
            kubectl::command("delete", slice.0)
        )
    };
    if kind == "FQDN" {
        let message = format!(
            "EndpointSlice {} has the address type FQDN, which proxies ignore",
            slice.name
        );
        let remedy =
            "Use IP addresses and addressType IPv4 or IPv6, or a Service of type ExternalName".to_owned();
        return finding(message, remedy);
    }
    let stated = match kind {
        "" => "no address type".to_owned(),
        kind => format!("the address type {kind}"),
    };
    let wrong = slice
        .endpoints()
        .flat_map(|endpoint| endpoint.addresses())
        .find(|text| {
            let address = text.parse::<IpAddr>();
            address.map_or(true, |address| family(address) != kind)
        });
    if let Some(address) = wrong {
        let message = format!(
            "EndpointSlice {} has {stated}, but the address {address}",
            slice.name
        );
        let right = address.parse().map_or("IPv4 or IPv6", family);
        return finding(message, again(right));
    }
    let families = families_of(&service);
    if families.is_empty() || families.contains(&kind) {
        return None;
    }
    let message = format!(
        "EndpointSlice {} has {stated}, but Service {} has only {}",
        slice.name,
        service.name,
        families.join(", ")
    );
    finding(message, again(families.first().copied().unwrap_or("IPv4")))
}

/// Returns the IP families of a Service: those of its spec, or else those of its cluster IPs.
fn families_of<'s>(service: &'s Service<'_>) -> Vec<&'s str> {
    let listed = service.list("/spec/ipFamilies").iter();
    let families: Vec<&str> = listed.filter_map(|family| family.as_str()).collect();
    if families.is_empty() {
        return service.cluster_ips().into_iter().map(family).collect();
    }
    families
}

fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}
