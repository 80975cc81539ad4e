//! PTL-0010: the protocols of Service and Pods differ.

use super::selector_matches_other_app;
use crate::facts::listeners;
use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::{Subject, finding_about};
use crate::views::{Port, Target};

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("protocol_mismatch.md"),
    explained_by: &[selector_matches_other_app::CODE],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(10);

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let ports = subject.service.ports().into_iter();
    ports
        .filter_map(|port| container_port(subject, port).or_else(|| slice_port(subject, port)))
        .collect()
}

/// Reports that the containers declare the number with another protocol only, and no other Service port uses it.
fn container_port(subject: &Subject<'_>, port: Port<'_>) -> Option<Finding> {
    let Target::Number(number) = port.target else {
        return None;
    };
    let mut declared = subject
        .active()
        .flat_map(|pod| pod.ports())
        .filter(|declared| declared.number == number);
    let first = declared.next()?;
    if first.protocol == port.protocol || declared.any(|declared| declared.protocol == port.protocol) {
        return None;
    }
    let ports = subject.service.ports();
    let has_twin = ports
        .iter()
        .any(|other| other.target == port.target && other.protocol == first.protocol);
    if has_twin {
        return None;
    }
    let message = format!(
        "Port {port} uses {}, but the containers of the selected Pods declare port {number} with {}",
        port.protocol, first.protocol
    );
    let remedy = kubectl::add(subject.service.0, &port.pointer("protocol"), first.protocol);
    let severity = if listeners::is_closed(subject, port) {
        Severity::Error
    } else {
        Severity::Warning
    };
    Some(subject.finding(CODE, severity, port.field("protocol"), message, remedy))
}

/// Reports that a hand-made slice has the port name with another protocol only.
fn slice_port(subject: &Subject<'_>, port: Port<'_>) -> Option<Finding> {
    let slices = subject
        .slices()
        .iter()
        .filter(|slice| !subject.is_from_selector(**slice));
    let mut named = slices.flat_map(|slice| {
        let ports = slice.ports().enumerate();
        ports
            .filter(|(_, (name, ..))| *name == port.name)
            .map(move |(index, found)| (slice, index, found))
    });
    let (slice, index, (_, protocol, _)) = named.next()?;
    if protocol == port.protocol || named.any(|(.., (_, protocol, _))| protocol == port.protocol) {
        return None;
    }
    let message = format!(
        "Port {port} of Service {} has no endpoint: its port in EndpointSlice {} has the protocol {protocol}",
        subject.service.name, slice.name
    );
    let remedy = kubectl::add(slice.0, &format!("/ports/{index}/protocol"), port.protocol);
    let field = format!("ports[{index}].protocol");
    Some(finding_about(
        slice.0,
        CODE,
        Severity::Error,
        field,
        message,
        remedy,
    ))
}
