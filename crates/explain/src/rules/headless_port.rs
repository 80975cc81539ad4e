//! PTL-0018.

use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::{Subject, about};
use crate::views::{Pod, Port};

pub const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("headless_port.md"),
    explained_by: &[Code(3), Code(8), Code(9), Code(28)],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(18);

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if !subject.service.is_headless() {
        return Vec::new();
    }
    let pods: Vec<Pod<'_>> = subject.active().collect();
    let ports = subject.service.ports().into_iter();
    ports.flat_map(|port| check_port(subject, &pods, port)).collect()
}

fn check_port(subject: &Subject<'_>, pods: &[Pod<'_>], port: Port<'_>) -> Vec<Finding> {
    let listens = |pod: &Pod<'_>| {
        let is_declared = pod.ports().iter().any(|declared| declared.number == port.number);
        is_declared
            || pod
                .resolve(port.target, port.protocol)
                .is_none_or(|number| number == port.number)
    };
    if pods.is_empty() || pods.iter().any(listens) {
        return Vec::new();
    }
    let Some(number) = pods[0].resolve(port.target, port.protocol) else {
        return Vec::new();
    };
    let explanation = format!(
        "Service {} is headless, so its name has the addresses of the Pods, and no proxy changes port {} to {number}",
        subject.service.name, port.number
    );
    let references = subject.world.references_to(subject.service);
    let clients: Vec<Finding> = references
        .filter(|(pod, reference)| pod.is_active() && reference.port == Some(port.number))
        .map(|(pod, reference)| {
            let message = format!("The Pod connects to {}. {explanation}", reference.text);
            let remedy = format!("Use port {number} in the configuration of the client");
            about(
                pod.0,
                CODE,
                Severity::Warning,
                reference.field.clone(),
                message,
                remedy,
            )
        })
        .collect();
    if !clients.is_empty() || !subject.is_named {
        return clients;
    }
    let remedy = format!(
        "Let clients use port {number}. To make that visible: {}",
        kubectl::replace(subject.service.0, &port.pointer("port"), number)
    );
    let message = format!("{explanation}. Clients that use port {} are refused", port.number);
    vec![subject.finding(CODE, Severity::Info, port.field("port"), message, remedy)]
}
