//! PTL-0011.

use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::nearest::nearest;
use crate::rule::Rule;
use crate::subject::{Subject, about};
use crate::views::{Ingress, IngressBackend, Port, Target};

pub const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("client_port.md"),
    explained_by: &[],
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
    for ingress in subject.world.ingresses_of(service) {
        let backends = ingress.backends().into_iter();
        let of_service = backends.filter(|backend| backend.service == service.name);
        findings.extend(of_service.filter_map(|backend| check_ingress(subject, ingress, &backend)));
    }
    if !service.is_headless() {
        findings.extend(check_pods(subject));
    }
    findings
}

fn check_ingress(
    subject: &Subject<'_>,
    ingress: Ingress<'_>,
    backend: &IngressBackend<'_>,
) -> Option<Finding> {
    let ports = subject.service.ports();
    let service = &subject.service.name;
    let pointer = format!(
        "/{}/service/port",
        backend.field.replace(['.', '['], "/").replace(']', "")
    );
    let finding = |field: &str, message: String, port: &Port<'_>| {
        let field = format!("{}.service.port.{field}", backend.field);
        let value = serde_json::json!({"number": port.number});
        about(
            ingress.0,
            CODE,
            Severity::Error,
            field,
            message,
            kubectl::replace(ingress.0, &pointer, value),
        )
    };
    if let Some(number) = backend.port_number {
        let meaning = meaning(&ports, number)?;
        let message = format!(
            "The backend uses port {number} of Service {service}, {}",
            meaning.text
        );
        return Some(finding("number", message, &meaning.port));
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
    Some(finding("name", message, port))
}

fn check_pods(subject: &Subject<'_>) -> Vec<Finding> {
    let ports = subject.service.ports();
    let references = subject.world.references_to(subject.service);
    references
        .filter(|(pod, _)| pod.is_active())
        .filter_map(|(pod, reference)| {
            let number = reference.port?;
            let meaning =
                meaning(&ports, number).filter(|meaning| meaning.is_known || reference.is_address)?;
            let message = format!(
                "The Pod uses port {number} of Service {} ({}), {}",
                subject.service.name, reference.text, meaning.text
            );
            let remedy = format!(
                "Use port {} in the configuration of the client",
                meaning.port.number
            );
            Some(about(
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

struct Meaning<'w> {
    text: String,
    /// True if the number is the target port or node port of a Service port.
    is_known: bool,
    /// Port to use instead.
    port: Port<'w>,
}

/// Returns the meaning of a number that is no port of the Service; `None` if it is one.
fn meaning<'w>(ports: &[Port<'w>], number: u16) -> Option<Meaning<'w>> {
    if ports.iter().any(|port| port.number == number) {
        return None;
    }
    let target = ports.iter().find(|port| port.target == Target::Number(number));
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
    Some(Meaning {
        text,
        is_known,
        port: *port,
    })
}
