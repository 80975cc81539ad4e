//! PTL-0048: the backend does not listen where the Service sends connections.

use serde_json::Value;

use super::{
    forwarding_filtered, headless_port, network_policy, pods_not_running, protocol_mismatch,
    selector_matches_no_pod, selector_matches_other_app, slice_port_name, target_port_name_protocol,
    target_port_name_undeclared, target_port_numeric_name, target_port_undeclared,
};
use crate::facts::listeners::{self, State};
use crate::facts::loopback::loopback_setting;
use crate::facts::probes::{self, ObservedProbe};
use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::observation::{Outcome, ProbeKind};
use crate::rule::Rule;
use crate::subject::{Subject, finding_about};
use crate::views::{Pod, Port, list, text};

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("listener_absent.md"),
    explained_by: &[
        selector_matches_no_pod::CODE,
        selector_matches_other_app::CODE,
        pods_not_running::CODE,
        target_port_undeclared::CODE,
        target_port_numeric_name::CODE,
        target_port_name_undeclared::CODE,
        target_port_name_protocol::CODE,
        protocol_mismatch::CODE,
        slice_port_name::CODE,
        headless_port::CODE,
        network_policy::CODE,
        forwarding_filtered::CODE,
    ],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(48);
/// Maximum number of ports of other listeners in a message.
const PORTS_MAX: usize = 5;
/// Variable with the port of a listener.
const PORT_VARIABLE: &str = "PORT";
/// Probes of the kubelet, which fail if the application listens on loopback only.
const PROBES: [&str; 3] = ["readinessProbe", "livenessProbe", "startupProbe"];
/// Forms of probes that open connections.
const CONNECTING: [&str; 3] = ["httpGet", "tcpSocket", "grpc"];

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let ports = subject.service.ports().into_iter();
    ports
        .filter_map(|port| {
            observed_faults(subject, port)
                .or_else(|| loopback_by_setting(subject, port))
                .or_else(|| other_port_by_variable(subject, port))
        })
        .collect()
}

fn observed_faults(subject: &Subject<'_>, port: Port<'_>) -> Option<Finding> {
    if subject.world.observations().all().is_empty() {
        return None;
    }
    absent_listener(subject, port).or_else(|| refused_probe(subject, port))
}

/// Reports that a setting of a Pod makes its application listen on loopback only, and no probe of the kubelet shows
/// otherwise.
fn loopback_by_setting(subject: &Subject<'_>, port: Port<'_>) -> Option<Finding> {
    if port.protocol != "TCP" {
        return None;
    }
    let (pod, number, setting) = pods_without_listener_data(subject, port).find_map(|pod| {
        let number = pod.resolve(port.target, port.protocol)?;
        Some((pod, number, loopback_setting(pod, number)?))
    })?;
    let message = format!(
        "Pod {} of Service {} has the setting {:?}, with which its application listens on port {number}/TCP of loopback only: connections from outside \
         of the Pod are refused",
        pod.name, subject.service.name, setting.text
    );
    let remedy =
        format!("Configure the application to listen on all addresses (0.0.0.0 or ::), port {number}");
    Some(finding_about(
        pod.0,
        CODE,
        Severity::Warning,
        setting.field,
        message,
        remedy,
    ))
}

/// Returns Pods that have started, and whose listeners neither an observation nor a probe of the kubelet shows.
fn pods_without_listener_data<'w>(subject: &Subject<'w>, port: Port<'_>) -> impl Iterator<Item = Pod<'w>> {
    subject.active().filter(move |pod| {
        let has_started = pod.is_ready() || pod.0.template().is_some();
        has_started && !is_probed(*pod) && listeners::state(subject, *pod, port) == State::Unknown
    })
}

/// Reports that the variable `PORT`, with which many applications choose the port of their listener, is another number than
/// the target port.
fn other_port_by_variable(subject: &Subject<'_>, port: Port<'_>) -> Option<Finding> {
    if port.protocol != "TCP" {
        return None;
    }
    let (pod, number, used, field) = pods_without_listener_data(subject, port).find_map(|pod| {
        let number = pod.resolve(port.target, port.protocol)?;
        let (used, field) = port_variable(pod, number)?;
        Some((pod, number, used, field))
    })?;
    let message = format!(
        "Pod {} of Service {} has the variable {PORT_VARIABLE}={used}, with which its application listens on port {used}/TCP: connections to the \
         target port {number}/TCP are refused",
        pod.name, subject.service.name
    );
    let remedy = format!("Set {PORT_VARIABLE} to {number}, or the target port of the Service to {used}");
    Some(finding_about(
        pod.0,
        CODE,
        Severity::Warning,
        field,
        message,
        remedy,
    ))
}

/// Returns the value of the variable `PORT` of the only container, and its path. `None` if the number is that of a declared
/// port, or if another setting contains the target port.
fn port_variable(pod: Pod<'_>, number: u16) -> Option<(u16, String)> {
    let mut containers = pod.containers();
    let container = containers.next().filter(|_| !pod.is_on_host_network())?;
    let variables = list(container, "env");
    let (index, variable) = variables
        .iter()
        .enumerate()
        .find(|(_, variable)| text(variable, "name") == PORT_VARIABLE)?;
    let used: u16 = text(variable, "value").parse().ok()?;
    let declared: Vec<u16> = pod.ports().iter().map(|port| port.number).collect();
    let values = variables.iter().map(|variable| text(variable, "value"));
    let arguments = ["command", "args"]
        .into_iter()
        .flat_map(|field| list(container, field));
    let mut settings = values.chain(arguments.filter_map(Value::as_str));
    let target = number.to_string();
    let is_target_set = settings.any(|setting| setting.contains(&target));
    let is_only = containers.next().is_none() && declared.contains(&number) && !declared.contains(&used);
    (is_only && !is_target_set).then(|| (used, format!("spec.containers[0].env[{index}].value")))
}

/// Returns true if the kubelet opens connections to the Pod.
fn is_probed(pod: Pod<'_>) -> bool {
    pod.containers().any(|container| {
        let mut probes = PROBES.iter().map(|name| &container[*name]);
        probes.any(|probe| CONNECTING.iter().any(|form| probe[*form].is_object()))
    })
}

/// Reports that a ready Pod has no listener that takes the connections.
fn absent_listener(subject: &Subject<'_>, port: Port<'_>) -> Option<Finding> {
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

/// Reports that an endpoint refuses the connections of a probe.
fn refused_probe(subject: &Subject<'_>, port: Port<'_>) -> Option<Finding> {
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

fn refused_finding(subject: &Subject<'_>, port: Port<'_>, refused: ObservedProbe<'_>) -> Finding {
    let (_, probe) = refused;
    let message = format!(
        "The endpoint {} of Service {} refuses connections, although it is ready: no process listens there",
        probe.target, subject.service.name
    );
    let remedy = "Configure the application to listen on this port on all addresses, or correct targetPort";
    let finding = subject.finding(CODE, Severity::Error, port.field("targetPort"), message, remedy);
    finding.with_evidence(probes::description(refused))
}
