//! PTL-0006: the target port is not a port of the containers.

use std::collections::HashSet;

use super::{selector_matches_other_app, service_terminating};
use crate::facts::listeners;
use crate::facts::similar_names::is_similar;
use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::Subject;
use crate::views::{ContainerPort, Pod, Port, Target, list};

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("target_port_undeclared.md"),
    explained_by: &[selector_matches_other_app::CODE, service_terminating::CODE],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(6);
/// Containers use ports above 1024 with the last digits of the usual one.
const THOUSAND: u16 = 1_000;
/// Difference of numbers that are mistaken for each other, such as 9090 and 9091.
const NEAR: u16 = 2;
/// Part of the names of Services and ports for metrics.
const METRICS: &str = "metrics";
/// Parts of the names of container ports that serve no users of the application.
const SIDE_PORTS: [&str; 9] = [
    "metrics", "prom", "health", "probe", "admin", "debug", "status", "monitor", "webhook",
];

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    // Members find each other by the addresses, and often declare the ports for clients only.
    let is_of_members = service.is_headless() && service.publishes_not_ready();
    let Some(pod) = subject.active().next().filter(|_| !is_of_members) else {
        return Vec::new();
    };
    let targets = Targets::of(subject, pod);
    let ports = service.ports().into_iter();
    ports
        .filter_map(|port| check_port(subject, pod, &targets, port))
        .collect()
}

/// Targets of the Services that select a Pod, with their protocols.
#[derive(Default)]
struct Targets<'w> {
    numbers: HashSet<(&'w str, u16)>,
    names: HashSet<(&'w str, &'w str)>,
}

impl<'w> Targets<'w> {
    fn of(subject: &Subject<'w>, pod: Pod<'w>) -> Self {
        let mut targets = Self::default();
        let services = subject.world.services_selecting(pod).into_iter();
        for port in services.flat_map(|service| service.ports()) {
            match port.target {
                Target::Number(number) => targets.numbers.insert((port.protocol, number)),
                Target::Name(name) => targets.names.insert((port.protocol, name)),
            };
        }
        targets
    }

    fn include(&self, declared: &ContainerPort<'w>) -> bool {
        self.numbers.contains(&(declared.protocol, declared.number))
            || self.names.contains(&(declared.protocol, declared.name))
    }
}

/// Declarations are optional. A target that no container declares is a fault in two cases. The Pods declare a port
/// that no Service uses, or the Service reaches none of the declared ports. Ports for metrics are often not declared.
fn check_port<'w>(
    subject: &Subject<'w>,
    pod: Pod<'w>,
    targets: &Targets<'w>,
    port: Port<'w>,
) -> Option<Finding> {
    let Target::Number(number) = port.target else {
        return None;
    };
    let declares = |pod: Pod<'_>| pod.ports().iter().any(|declared| declared.number == number);
    if subject.active().any(declares) || is_application_undeclared(pod) {
        return None;
    }
    let candidates = likely_targets(subject, pod, targets, port, number);
    let distance = |declared: &&ContainerPort<'_>| declared.number.abs_diff(number);
    let suggestion = candidates.iter().min_by_key(distance)?;
    let declared: Vec<String> = pod
        .ports()
        .iter()
        .map(|port| format!("{}/{}", port.number, port.protocol))
        .collect();
    let message = format!(
        "Port {port} has the target port {number}, but the containers of the selected Pods declare {}",
        declared.join(", ")
    );
    let target = if suggestion.name.is_empty() {
        serde_json::json!(suggestion.number)
    } else {
        serde_json::json!(suggestion.name)
    };
    let pointer = port.pointer("targetPort");
    // The field can be absent.
    let remedy = kubectl::add(subject.service.0, &pointer, target);
    let field = port.field("targetPort");
    // Declarations alone do not show that the application listens elsewhere.
    let severity = if listeners::is_closed(subject, port) {
        Severity::Error
    } else {
        Severity::Warning
    };
    let finding = subject.finding(CODE, severity, field, message, remedy);
    Some(finding.with_evidence(format!("Pod {} declares {}", pod.name, declared.join(", "))))
}

/// Returns the declared ports that clients of a Service port may need. `number` is its target port.
fn likely_targets<'w>(
    subject: &Subject<'w>,
    pod: Pod<'w>,
    targets: &Targets<'w>,
    port: Port<'w>,
    number: u16,
) -> Vec<ContainerPort<'w>> {
    let mut candidates = pod.ports();
    let is_side_port = |name: &str| {
        let mut parts = SIDE_PORTS.iter();
        parts.any(|part| name.contains(part) && !port.name.contains(part))
    };
    candidates.retain(|declared| declared.protocol == port.protocol && !is_side_port(declared.name));
    let (used, free): (Vec<_>, Vec<_>) = candidates
        .into_iter()
        .partition(|declared| targets.include(declared));
    let is_metrics = port.name.contains(METRICS) || subject.service.name.contains(METRICS);
    let is_reached = reaches_declared_port(subject, pod);
    let mut candidates = if free.is_empty() && !is_metrics && !is_reached {
        used
    } else {
        free
    };
    // Some applications, such as istiod, declare only a part of their ports.
    if is_reached && undeclared_targets(subject, pod) > 1 {
        candidates.retain(|declared| is_related(port, number, declared));
    }
    candidates
}

/// Returns true if the first container, which runs the application, declares no port. The declared ports then belong
/// to sidecars.
fn is_application_undeclared(pod: Pod<'_>) -> bool {
    let containers = pod.0.list("/spec/containers");
    let is_undeclared = |container: &serde_json::Value| list(container, "ports").is_empty();
    containers.len() > 1 && containers.first().is_some_and(is_undeclared)
}

/// Returns true if port and target port are exchanged: the containers declare the number of the port, and not that of
/// the target.
pub(super) fn has_exchanged_numbers(subject: &Subject<'_>, port: Port<'_>) -> bool {
    let Target::Number(target) = port.target else {
        return false;
    };
    let declares = |number: u16| {
        let mut declared = subject.active().flat_map(|pod| pod.ports());
        declared.any(|declared| declared.number == number)
    };
    !subject.service.is_headless() && target != port.number && declares(port.number) && !declares(target)
}

/// Returns the number of Service ports whose target the Pod does not declare.
fn undeclared_targets(subject: &Subject<'_>, pod: Pod<'_>) -> usize {
    let declared = pod.ports();
    let ports = subject.service.ports().into_iter();
    let undeclared = ports.filter(|port| match port.target {
        Target::Number(number) => !declared.iter().any(|declared| declared.number == number),
        Target::Name(_) => false,
    });
    undeclared.count()
}

/// Returns true if a Service port probably means a declared port: they have similar names or numbers, such as 443 and
/// 8443.
fn is_related(port: Port<'_>, target: u16, declared: &ContainerPort<'_>) -> bool {
    let has_names = !declared.name.is_empty() && !port.name.is_empty();
    let mut numbers = [port.number, target].into_iter();
    let is_shifted = numbers.any(|number| number % THOUSAND == declared.number % THOUSAND);
    let is_near = declared.number.abs_diff(target) <= NEAR;
    is_shifted || is_near || has_names && is_similar(declared.name, port.name)
}

/// Returns true if a port of the Service reaches a declared port.
fn reaches_declared_port(subject: &Subject<'_>, pod: Pod<'_>) -> bool {
    let declared = pod.ports();
    let ports = subject.service.ports().into_iter();
    let targets = ports.filter_map(|port| pod.resolve(port.target, port.protocol));
    targets
        .into_iter()
        .any(|number| declared.iter().any(|port| port.number == number))
}
