//! PTL-0008: a named target port is not declared by the Pods.

use super::selector_matches_other_app;
use crate::facts::similar_names::nearest_name;
use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::Subject;
use crate::views::{Pod, Port, Target};

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("target_port_name_undeclared.md"),
    explained_by: &[selector_matches_other_app::CODE],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(8);

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let pods: Vec<Pod<'_>> = subject.active().collect();
    let ports = subject.service.ports().into_iter();
    ports
        .filter_map(|port| check_port(subject, &pods, port))
        .collect()
}

/// Reports that Pods do not declare the name of a target port.
fn check_port(subject: &Subject<'_>, pods: &[Pod<'_>], port: Port<'_>) -> Option<Finding> {
    let Target::Name(name) = port.target else {
        return None;
    };
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    let lacks = |pod: &&Pod<'_>| pod.ports().iter().all(|declared| declared.name != name);
    let lacking: Vec<&Pod<'_>> = pods.iter().filter(lacks).collect();
    let first = lacking.first()?;
    let is_partial = lacking.len() < pods.len();
    if is_number || is_partial && subject.is_rolling() {
        return None;
    }
    let declared = first.ports();
    // Admission can add the ports of sidecars to a template.
    if first.0.template().is_some() && declared.is_empty() {
        return None;
    }
    let usable = declared
        .iter()
        .filter(|declared| declared.protocol == port.protocol);
    let named: Vec<&str> = usable
        .clone()
        .map(|declared| declared.name)
        .filter(|name| !name.is_empty())
        .collect();
    let only = match named.as_slice() {
        [only] => Some(*only),
        _ => None,
    };
    let suggestion = nearest_name(name, named.iter().copied()).or(only);
    let numbers: Vec<u16> = usable.map(|declared| declared.number).collect();
    let pointer = port.pointer("targetPort");
    let remedy = match (suggestion, numbers.as_slice()) {
        (Some(suggestion), _) if !is_partial => kubectl::replace(subject.service.0, &pointer, suggestion),
        (None, [number]) if !is_partial => kubectl::replace(subject.service.0, &pointer, *number),
        _ => format!(
            "Give the container port of Pod {} the name {name}, in the template of its workload",
            first.name
        ),
    };
    let (severity, fault) = fault(lacking.len(), pods.len());
    let nearest = suggestion.map_or_else(String::new, |suggestion| {
        format!("; the nearest is {suggestion:?}")
    });
    let message = format!("Port {port} has the target port {name:?}, but {fault} of this name{nearest}");
    let finding = subject.finding(CODE, severity, port.field("targetPort"), message, remedy);
    Some(finding.with_evidence(evidence(first)))
}

/// Returns the severity and the fault if some of the Pods lack the port.
fn fault(lacking: usize, pods: usize) -> (Severity, String) {
    if lacking < pods {
        let fault = format!("{lacking} of {pods} Pods have no port");
        return (Severity::Warning, fault);
    }
    let fault = "no container of the selected Pods has a port".to_owned();
    (Severity::Error, fault)
}

/// Returns the ports that a Pod declares.
fn evidence(pod: &Pod<'_>) -> String {
    let declared = pod.ports();
    let ports: Vec<String> = declared
        .iter()
        .map(|port| {
            format!("{} {}/{}", port.name, port.number, port.protocol)
                .trim()
                .to_owned()
        })
        .collect();
    let ports = if ports.is_empty() {
        "no ports".to_owned()
    } else {
        ports.join(", ")
    };
    format!("Pod {} declares {ports}", pod.name)
}
