//! PTL-0009: the named target port has another protocol.

use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::Subject;
use crate::views::{Port, Target};

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("target_port_name_protocol.md"),
    explained_by: &[],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(9);

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let ports = subject.service.ports().into_iter();
    ports.filter_map(|port| check_port(subject, port)).collect()
}

fn check_port(subject: &Subject<'_>, port: Port<'_>) -> Option<Finding> {
    let Target::Name(name) = port.target else {
        return None;
    };
    if subject
        .active()
        .any(|pod| pod.resolve(port.target, port.protocol).is_some())
    {
        return None;
    }
    let (pod, declared) = subject.active().find_map(|pod| {
        let declared = pod.ports().into_iter().find(|declared| declared.name == name)?;
        Some((pod, declared))
    })?;
    let message = format!(
        "Port {port} has the target port {name:?}, but the container port of this name is {}/{}: a name is resolved for its protocol only",
        declared.number, declared.protocol
    );
    let remedy = kubectl::add(subject.service.0, &port.pointer("protocol"), declared.protocol);
    let finding = subject.finding(CODE, Severity::Error, port.field("protocol"), message, remedy);
    Some(finding.with_evidence(format!(
        "Pod {} declares {name} {}/{}",
        pod.name, declared.number, declared.protocol
    )))
}
