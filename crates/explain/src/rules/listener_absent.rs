//! PTL-0048: the backend does not listen where the Service sends connections.

use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::listeners::{self, State};
use crate::observation::{Outcome, ProbeKind};
use crate::probes::{self, Found};
use crate::rule::Rule;
use crate::subject::Subject;
use crate::views::{Pod, Port};

pub const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("listener_absent.md"),
    explained_by: &[
        Code(2),
        Code(3),
        Code(5),
        Code(6),
        Code(7),
        Code(8),
        Code(9),
        Code(10),
        Code(16),
        Code(18),
        Code(32),
        Code(42),
    ],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(48);
/// Ports of other listeners in a message.
const PORTS_MAX: usize = 5;

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if subject.world.observations().all().is_empty() {
        return Vec::new();
    }
    let ports = subject.service.ports().into_iter();
    ports
        .filter_map(|port| by_listeners(subject, port).or_else(|| by_probe(subject, port)))
        .collect()
}

/// A ready Pod has no listener that takes the connections.
fn by_listeners(subject: &Subject<'_>, port: Port<'_>) -> Option<Finding> {
    let pods = subject.active().filter(|pod| pod.is_ready());
    let states: Vec<(Pod<'_>, State)> = pods
        .map(|pod| (pod, listeners::state(subject, pod, port)))
        .collect();
    let is_at_fault = |state: &State| !matches!(state, State::Unknown | State::Listening);
    let mut at_fault = states.iter().filter(|(_, state)| is_at_fault(state));
    let (pod, state) = at_fault.next()?;
    let others = at_fault.count();
    let number = pod.resolve(port.target, port.protocol)?;
    let (is_partial, fault, remedy) = fault(subject, state, number, port)?;
    let is_served = states.iter().any(|(_, state)| *state == State::Listening);
    let severity = if is_served || is_partial {
        Severity::Warning
    } else {
        Severity::Error
    };
    let message = format!("Pod {} of Service {} {fault}", pod.name, subject.service.name);
    let finding = subject.finding(CODE, severity, port.field("targetPort"), message, remedy);
    Some(match others {
        0 => finding,
        _ => finding.with_evidence(format!("{others} other Pods of the Service have the same fault")),
    })
}

/// Returns the fault and its remedy, and true if the Pod takes connections of another family.
fn fault(
    subject: &Subject<'_>,
    state: &State,
    number: u16,
    port: Port<'_>,
) -> Option<(bool, String, String)> {
    let protocol = port.protocol;
    match state {
        State::Unknown | State::Listening => None,
        State::LoopbackOnly(address) => Some((
            false,
            format!(
                "listens on {address} port {number}/{protocol} only, which is not reachable from outside of the Pod"
            ),
            format!("Configure the application to listen on all addresses (0.0.0.0 or ::), port {number}"),
        )),
        State::OtherAddress { endpoint, listener } => Some((
            endpoint.is_ipv6() != listener.is_ipv6(),
            format!(
                "listens on {listener} port {number}/{protocol}, but not on the address {endpoint} of its endpoint"
            ),
            format!(
                "Configure the application to listen on all addresses of both families (::), port {number}"
            ),
        )),
        State::Absent(others) if others.is_empty() => Some((
            false,
            format!("does not listen on port {number}/{protocol}"),
            format!("Configure the application to listen on port {number}, or correct targetPort"),
        )),
        State::Absent(others) => {
            let listed: Vec<String> = others.iter().take(PORTS_MAX).map(u16::to_string).collect();
            Some((
                false,
                format!(
                    "does not listen on port {number}/{protocol}. It listens on {}",
                    listed.join(", ")
                ),
                target_remedy(subject, others, port),
            ))
        }
    }
}

/// Returns the command that sets the target port to the only port of the application.
fn target_remedy(subject: &Subject<'_>, others: &[u16], port: Port<'_>) -> String {
    match others {
        [other] => kubectl::add(subject.service.0, &port.pointer("targetPort"), *other),
        _ => format!(
            "Set the target port to the port of the application: {}",
            kubectl::command("edit", subject.service.0)
        ),
    }
}

/// An endpoint refuses the connections of a probe.
fn by_probe(subject: &Subject<'_>, port: Port<'_>) -> Option<Finding> {
    let refused = probes::of_service(subject).into_iter().find(|(_, probe)| {
        let is_kind = matches!(probe.kind, ProbeKind::Tcp | ProbeKind::Http | ProbeKind::Tls);
        is_kind
            && port.protocol == "TCP"
            && probe.outcome == Outcome::Refused
            && probes::ready_endpoint(subject, probe).is_some()
            && is_target(subject, probe.port(), port)
    })?;
    Some(refused_finding(subject, port, refused))
}

fn is_target(subject: &Subject<'_>, number: Option<u16>, port: Port<'_>) -> bool {
    let mut ports = subject.slices().iter().flat_map(|slice| slice.ports());
    ports.any(|(name, protocol, target)| name == port.name && protocol == port.protocol && target == number)
}

fn refused_finding(subject: &Subject<'_>, port: Port<'_>, refused: Found<'_>) -> Finding {
    let (_, probe) = refused;
    let message = format!(
        "The endpoint {} of Service {} refuses connections, although it is ready: no process listens there",
        probe.target, subject.service.name
    );
    let remedy = "Configure the application to listen on this port on all addresses, or correct targetPort";
    let finding = subject.finding(CODE, Severity::Error, port.field("targetPort"), message, remedy);
    finding.with_evidence(probes::description(refused))
}
