//! PTL-0052: the source ports of masqueraded connections are used up.

use super::conntrack_full;
use crate::finding::{Code, Finding, Severity};
use crate::observation::{MasqueradedConnections, NodeObservation};
use crate::rule::Rule;
use crate::subject::Subject;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("masquerade_ports.md"),
    explained_by: &[conntrack_full::CODE],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(52);
/// Ports that masquerading assigns: 1024 to 65535.
const PORTS: u64 = 64_512;
/// Percentage of the ports at which new connections fail now and then.
const NEARLY_USED_PERCENT: u64 = 90;

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let observations = subject.world.observations().all().iter();
    let counts = observations.flat_map(|observation| {
        let counts = observation
            .conntrack
            .iter()
            .flat_map(|conntrack| conntrack.masqueraded.iter().flatten());
        counts.map(move |count| (observation, count))
    });
    let is_nearly_used =
        |count: &MasqueradedConnections| count.connections.saturating_mul(100) >= PORTS * NEARLY_USED_PERCENT;
    counts
        .filter(|(_, count)| is_nearly_used(count) && is_endpoint(subject, count))
        .map(|(observation, count)| finding(subject, observation, count))
        .collect()
}

fn is_endpoint(subject: &Subject<'_>, count: &MasqueradedConnections) -> bool {
    let mut slices = subject.slices().iter();
    slices.any(|slice| {
        let mut ports = slice.ports();
        let mut endpoints = slice.endpoints();
        ports.any(|(_, protocol, number)| {
            number == Some(count.destination_port) && protocol == count.protocol.name()
        }) && endpoints.any(|endpoint| endpoint.ip() == Some(count.destination))
    })
}

fn finding(subject: &Subject<'_>, observation: &NodeObservation, count: &MasqueradedConnections) -> Finding {
    let (severity, effect) = if count.connections >= PORTS {
        (Severity::Error, "New connections fail")
    } else {
        (Severity::Warning, "New connections fail when they are used up")
    };
    let message = format!(
        "Node {} has {} masqueraded {} connections from {} to endpoint {} port {} of Service {}, of {PORTS} possible source ports. {effect}",
        observation.metadata.name,
        count.connections,
        count.protocol,
        count.source,
        count.destination,
        count.destination_port,
        subject.service.name
    );
    let remedy = "Run more endpoints, let clients keep connections open, or avoid masquerading: externalTrafficPolicy: Local for clients from outside";
    let field = format!("conntrack.masqueraded[{}]", count.destination);
    subject.finding(CODE, severity, field, message, remedy)
}
