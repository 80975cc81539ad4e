//! PTL-0011: a client uses a port that the Service does not have.

use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::references::Reference;
use crate::rule::Rule;
use crate::similar_names::nearest;
use crate::subject::{Subject, finding_about};
use crate::views::{Backend, Port, Route, Target};

use super::target_port_undeclared::has_exchanged_numbers;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("client_port.md"),
    explained_by: &[Code(21)],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(11);

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    if service.is_external_name() || service.ports().is_empty() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for route in subject.world.routes_of(service) {
        let backends = route.backends().into_iter();
        let of_service = backends
            .filter(|backend| backend.service == service.name && backend.namespace == service.namespace);
        findings.extend(of_service.filter_map(|backend| check_route(subject, route, &backend)));
    }
    if !service.is_headless() {
        findings.extend(check_pods(subject));
    }
    findings
}

fn check_route(subject: &Subject<'_>, route: Route<'_>, backend: &Backend<'_>) -> Option<Finding> {
    let ports = subject.service.ports();
    let service = &subject.service.name;
    let pointer = |field: &str| format!("/{}", field.replace(['.', '['], "/").replace(']', ""));
    let finding = |field: &str, message: String, port: &Port<'_>| {
        // A number can replace a name.
        let remedy = match field
            .strip_suffix(".port.number")
            .or(field.strip_suffix(".port.name"))
        {
            Some(parent) => {
                let value = serde_json::json!({"number": port.number});
                kubectl::replace(route.0, &pointer(&format!("{parent}.port")), value)
            }
            None => kubectl::add(route.0, &pointer(field), port.number),
        };
        finding_about(route.0, CODE, Severity::Error, field, message, remedy)
    };
    if let Some(number) = backend.port_number {
        let port_use = port_use(subject, &ports, number)?;
        let message = format!(
            "The backend uses port {number} of Service {service}, {}",
            port_use.text
        );
        return Some(finding(&backend.port_field, message, &port_use.port));
    }
    let name = backend.port_name;
    if name.is_empty() || ports.iter().any(|port| port.name == name) {
        return None;
    }
    let similar = nearest(name, ports.iter().map(|port| port.name));
    let port = ports
        .iter()
        .find(|port| Some(port.name) == similar)
        .or(ports.first())?;
    let message =
        format!("The backend uses port {name:?} of Service {service}, which has no port of this name");
    let field = backend.port_name_field.as_ref()?;
    Some(finding(field, message, port))
}

fn check_pods(subject: &Subject<'_>) -> Vec<Finding> {
    let ports = subject.service.ports();
    let references = subject.world.references_to(subject.service);
    references
        .filter(|(pod, reference)| pod.is_active() && !is_of_node(subject, reference))
        .filter_map(|(pod, reference)| {
            let number = reference.used_port()?;
            let port_use = port_use(subject, &ports, number)
                .filter(|port_use| port_use.is_known || reference.is_address)?;
            let message = format!(
                "The Pod uses port {number} of Service {} ({}), {}",
                subject.service.name, reference.text, port_use.text
            );
            let remedy = format!(
                "Use port {} in the configuration of the client",
                port_use.port.number
            );
            Some(finding_about(
                pod.0,
                CODE,
                Severity::Warning,
                reference.field.clone(),
                message,
                remedy,
            ))
        })
        .collect()
}

/// Returns true if a client uses the node port at the address of a node.
fn is_of_node(subject: &Subject<'_>, reference: &Reference) -> bool {
    reference
        .address
        .is_some_and(|address| subject.world.node_at(address).is_some())
}

struct PortUse<'w> {
    text: String,
    /// True if the number is the target port or node port of a Service port.
    is_known: bool,
    /// Port to use instead.
    port: Port<'w>,
}

/// Returns the meaning of a number that is not a port of the Service; `None` if it is one.
fn port_use<'w>(subject: &Subject<'_>, ports: &[Port<'w>], number: u16) -> Option<PortUse<'w>> {
    let is_target = |port: &&Port<'_>| port.target == Target::Number(number);
    // With exchanged numbers, the Service is to be changed, not its clients.
    let is_exchanged = |port: &Port<'_>| is_target(&port) && has_exchanged_numbers(subject, *port);
    if ports
        .iter()
        .any(|port| port.number == number || is_exchanged(port))
    {
        return None;
    }
    let target = ports.iter().find(is_target);
    let node_port = ports.iter().find(|port| port.node_port == Some(number));
    let (text, port) = match (target, node_port) {
        (Some(port), _) => (format!("which is the target port of port {}", port.number), port),
        (None, Some(port)) => (format!("which is the node port of port {}", port.number), port),
        (None, None) => {
            let numbers: Vec<String> = ports.iter().map(|port| port.number.to_string()).collect();
            (format!("which has only {}", numbers.join(", ")), ports.first()?)
        }
    };
    let is_known = target.or(node_port).is_some();
    Some(PortUse {
        text,
        is_known,
        port: *port,
    })
}
