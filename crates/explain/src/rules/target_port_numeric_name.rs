//! PTL-0007: the target port is a number in quotes.

use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::Subject;
use crate::views::Target;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("target_port_numeric_name.md"),
    explained_by: &[],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(7);

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let ports = subject.service.ports().into_iter();
    let numeric = ports.filter_map(|port| match port.target {
        Target::Name(name) => name.parse::<u16>().ok().map(|number| (port, number)),
        Target::Number(_) => None,
    });
    numeric
        .map(|(port, number)| {
            let message = format!(
                "The target port of port {port} is the string \"{number}\", which is the name of a container port, not the number {number}"
            );
            let remedy = kubectl::replace(subject.service.0, &port.pointer("targetPort"), number);
            subject.finding(CODE, Severity::Error, port.field("targetPort"), message, remedy)
        })
        .collect()
}
