//! PTL-0018: a headless Service is used with a port that its Pods do not have.

use super::{
    affinity_behind_ingress, endpoints_missing, selector_matches_no_pod, selector_matches_other_app,
    service_terminating, slice_port_name, slice_without_service, target_port_name_protocol,
    target_port_name_undeclared, target_port_undeclared,
};
use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::{Subject, finding_about};
use crate::views::{Pod, Port, Target};

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("headless_port.md"),
    explained_by: &[
        selector_matches_no_pod::CODE,
        selector_matches_other_app::CODE,
        target_port_undeclared::CODE,
        target_port_name_undeclared::CODE,
        target_port_name_protocol::CODE,
        endpoints_missing::CODE,
        slice_without_service::CODE,
        slice_port_name::CODE,
        service_terminating::CODE,
        affinity_behind_ingress::CODE,
    ],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(18);

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if !subject.service.is_headless() {
        return Vec::new();
    }
    let ports = subject.service.ports();
    let changed: Vec<(Port<'_>, u16)> = ports
        .iter()
        .filter_map(|port| Some((*port, changed_port(subject, *port)?)))
        .collect();
    // Clients can read a port in SRV records. Without any port that other clients can use, the Service is taken for one
    // with a cluster IP.
    let are_all_changed = changed.len() == ports.len();
    let findings = changed
        .into_iter()
        .map(|(port, number)| check_port(subject, port, number, are_all_changed));
    findings.flatten().collect()
}

/// Returns the port of the backends, if no Pod declares the port of the Service.
fn changed_port(subject: &Subject<'_>, port: Port<'_>) -> Option<u16> {
    let is_declared = |pod: Pod<'_>| pod.ports().iter().any(|declared| declared.number == port.number);
    port_of_backends(subject, port).filter(|_| !subject.active().any(is_declared))
}

fn check_port(subject: &Subject<'_>, port: Port<'_>, number: u16, are_all_changed: bool) -> Vec<Finding> {
    let explanation = format!(
        "Service {} is headless, so its name has the addresses of the Pods, and no proxy changes port {} to {number}",
        subject.service.name, port.number
    );
    let references = subject.world.references_to(subject.service);
    let clients: Vec<Finding> = references
        .filter(|(pod, reference)| pod.is_active() && reference.used_port() == Some(port.number))
        .map(|(pod, reference)| {
            let message = format!("The Pod connects to {}. {explanation}", reference.text);
            let remedy = format!("Use port {number} in the configuration of the client");
            finding_about(
                pod.0,
                CODE,
                Severity::Warning,
                reference.field.clone(),
                message,
                remedy,
            )
        })
        .collect();
    if !clients.is_empty() || !are_all_changed {
        return clients;
    }
    let remedy = format!(
        "Let clients use port {number}. To make that visible: {}",
        kubectl::replace(subject.service.0, &port.pointer("port"), number)
    );
    let message = format!("{explanation}. Clients that use port {} are refused", port.number);
    vec![subject.finding(CODE, Severity::Warning, port.field("port"), message, remedy)]
}

/// Returns the port of the backends if it differs from the port of the Service. Pods, slices, or a number in the
/// Service name it.
fn port_of_backends(subject: &Subject<'_>, port: Port<'_>) -> Option<u16> {
    let pod_numbers: Vec<u16> = subject
        .active()
        .filter_map(|pod| pod.resolve(port.target, port.protocol))
        .collect();
    let slices = subject.slices().iter();
    let slice_numbers = slices
        .flat_map(|slice| slice.ports())
        .filter(|(name, ..)| *name == port.name)
        .filter_map(|(.., number)| number);
    let mut numbers = if pod_numbers.is_empty() {
        slice_numbers.collect()
    } else {
        pod_numbers
    };
    if let Target::Number(number) = port.target
        && numbers.is_empty()
        && subject.selected().is_empty()
    {
        numbers.push(number);
    }
    let first = *numbers.first()?;
    (!numbers.contains(&port.number)).then_some(first)
}
