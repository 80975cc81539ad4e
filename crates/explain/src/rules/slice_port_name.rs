//! PTL-0016: the endpoints have other port names than the Service.

use std::net::{IpAddr, Ipv4Addr};

use super::service_terminating;
use crate::facts::similar_names::nearest_name;
use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::object::Object;
use crate::rule::Rule;
use crate::subject::{Subject, finding_about};
use crate::views::Port;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("slice_port_name.md"),
    explained_by: &[service_terminating::CODE],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(16);
/// Address that Cilium gives to the only endpoint of the Services of its Ingresses and Gateways. Its port has no name.
const PLACEHOLDER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 192, 192, 192));

/// Ports of an object with endpoints.
struct ListedPorts<'w> {
    object: &'w Object,
    /// Path of the ports in the object.
    path: &'static str,
    names: Vec<&'w str>,
}

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    if service.is_external_name() || has_placeholder(subject) {
        return Vec::new();
    }
    let listed = listed_ports(subject);
    if listed.is_empty() {
        return Vec::new();
    }
    let has_name = |port: &Port<'_>| {
        let mut names = listed.iter().flat_map(|listed| &listed.names);
        names.any(|name| *name == port.name)
    };
    let missing = service.ports().into_iter().filter(|port| !has_name(port));
    missing
        .filter_map(|port| finding(subject, &listed, port))
        .collect()
}

/// Returns true if the only endpoint stands for the node's own proxy, which serves the Service.
fn has_placeholder(subject: &Subject<'_>) -> bool {
    let endpoints = subject.slices().iter().flat_map(|slice| slice.endpoints());
    let mut addresses = endpoints.map(|endpoint| endpoint.ip()).peekable();
    addresses.peek().is_some() && addresses.all(|address| address == Some(PLACEHOLDER))
}

/// Returns the ports of the hand-made slices, or of the Endpoints. Slices of the controller have the names of the
/// Service; with them, another slice need not have all ports.
fn listed_ports<'w>(subject: &Subject<'w>) -> Vec<ListedPorts<'w>> {
    if subject
        .slices()
        .iter()
        .any(|slice| subject.is_from_selector(*slice))
    {
        return edited_slices(subject);
    }
    // Mirrored slices follow their Endpoints, which are to be changed.
    let endpoints = subject.world.endpoints_of(subject.service);
    let has_mirrored = subject.slices().iter().any(|slice| slice.is_mirrored());
    if let Some(endpoints) = endpoints.filter(|_| has_mirrored || subject.slices().is_empty()) {
        let has_addresses = endpoints.addresses().next().is_some() && !subject.service.has_selector();
        let names = endpoints.ports().map(|(name, ..)| name).collect();
        let listed = ListedPorts {
            object: endpoints.0,
            path: "subsets[0].ports",
            names,
        };
        return has_addresses.then_some(listed).into_iter().collect();
    }
    let with_endpoints = subject
        .slices()
        .iter()
        .filter(|slice| slice.endpoints().next().is_some());
    with_endpoints
        .map(|slice| ListedPorts {
            object: slice.0,
            path: "ports",
            names: slice.ports().map(|(name, ..)| name).collect(),
        })
        .collect()
}

/// Returns the slices of the controller with a port name that the Service does not have. They were edited, or are
/// older than the Service.
fn edited_slices<'w>(subject: &Subject<'w>) -> Vec<ListedPorts<'w>> {
    let ports = subject.service.ports();
    let slices = subject
        .slices()
        .iter()
        .filter(|slice| subject.is_from_selector(**slice));
    let listed: Vec<ListedPorts<'w>> = slices
        .filter(|slice| slice.endpoints().next().is_some())
        .map(|slice| ListedPorts {
            object: slice.0,
            path: "ports",
            names: slice.ports().map(|(name, ..)| name).collect(),
        })
        .collect();
    let is_foreign = |name: &&str| !ports.iter().any(|port| port.name == *name);
    let has_foreign = listed.iter().any(|listed| listed.names.iter().any(is_foreign));
    if has_foreign { listed } else { Vec::new() }
}

/// Returns the finding about a Service port whose name no listed slice has.
fn finding(subject: &Subject<'_>, listed: &[ListedPorts<'_>], port: Port<'_>) -> Option<Finding> {
    let first = listed.first()?;
    let service = subject.service;
    let ports = service.ports();
    // A name that another Service port uses is not a misspelling of this one.
    let free: Vec<&str> = first
        .names
        .iter()
        .copied()
        .filter(|name| !ports.iter().any(|port| port.name == *name))
        .collect();
    let only = (free.len() == 1).then(|| free.first().copied()).flatten();
    let similar = only.or_else(|| nearest_name(port.name, free.iter().copied()));
    let index = first.names.iter().position(|name| Some(*name) == similar);
    let kind = first.object.kind.name();
    let names: Vec<String> = first.names.iter().map(|name| format!("{name:?}")).collect();
    let names = if names.is_empty() {
        "no ports".to_owned()
    } else {
        names.join(", ")
    };
    let message = format!(
        "Port {port} of Service {} has the name {:?}, but {kind} {} has {names}: a proxy matches ports by name",
        service.name, port.name, first.object.name
    );
    let pointer = |suffix: &str| format!("/{}{suffix}", first.path.replace("[0].", "/0/"));
    let (field, remedy) = match index {
        Some(index) => (
            format!("{}[{index}].name", first.path),
            kubectl::add(first.object, &pointer(&format!("/{index}/name")), port.name),
        ),
        None => {
            let entry =
                serde_json::json!({"name": port.name, "port": port.number, "protocol": port.protocol});
            let value = if first.names.is_empty() {
                serde_json::json!([entry])
            } else {
                entry
            };
            let suffix = if first.names.is_empty() { "" } else { "/-" };
            (
                first.path.to_owned(),
                kubectl::add(first.object, &pointer(suffix), value),
            )
        }
    };
    Some(finding_about(
        first.object,
        CODE,
        Severity::Error,
        field,
        message,
        remedy,
    ))
}
