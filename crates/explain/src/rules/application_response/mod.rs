//! PTL-0060: the application does not respond, or a client uses a former address.

mod former_addresses;

use super::{
    listener_absent, network_policy, path_mtu, pod_route, pods_not_ready, pods_not_running,
    protocol_mismatch, response_protocol, selector_matches_no_pod, slice_port_name, target_port_undeclared,
};
use crate::facts::probes::{self, Declared, ObservedProbe};
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::observation::{Outcome, Probe, ProbeKind};
use crate::rule::Rule;
use crate::subject::Subject;
use crate::views::{Pod, list, text};

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("../application_response.md"),
    explained_by: &[
        selector_matches_no_pod::CODE,
        pods_not_ready::CODE,
        pods_not_running::CODE,
        target_port_undeclared::CODE,
        protocol_mismatch::CODE,
        slice_port_name::CODE,
        network_policy::CODE,
        listener_absent::CODE,
        path_mtu::CODE,
        pod_route::CODE,
        response_protocol::CODE,
    ],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(60);
/// Time of a response at which clients with usual timeouts fail.
const SLOW_MILLISECONDS: u64 = 5_000;
/// End of the names of variables with the cluster IP of a Service, which the kubelet sets.
const HOST_VARIABLE: &str = "_SERVICE_HOST";

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if subject.world.observations().all().is_empty() {
        return Vec::new();
    }
    let found = probes::of_service(subject);
    let endpoint_probes: Vec<ObservedProbe<'_>> = found
        .iter()
        .copied()
        .filter(|(_, probe)| probes::ready_endpoint(subject, probe).is_some())
        .collect();
    let response =
        no_response(subject, &endpoint_probes).or_else(|| slow_response(subject, &endpoint_probes));
    let former = variable(subject)
        .or_else(|| former_addresses::check(subject))
        .or_else(|| former_addresses::former_address_in_dns(subject, &found));
    response.into_iter().chain(former).collect()
}

/// Returns true if the probe uses the protocol of the port. A server of another protocol closes the connection, too.
fn is_of_protocol(subject: &Subject<'_>, probe: &Probe) -> bool {
    let declared =
        || probes::port_of(subject, probe).and_then(|port| probes::declared_protocol(subject, port));
    match probe.kind {
        ProbeKind::Http => probe.proxy_protocol != Some(true) && declared() == Some(Declared::Http),
        ProbeKind::Tls => declared() == Some(Declared::Tls),
        ProbeKind::Tcp => true,
        _ => false,
    }
}

/// Returns true if the application expects a header of the PROXY protocol, so that other probes fail.
fn expects_header(subject: &Subject<'_>, found: &[ObservedProbe<'_>]) -> bool {
    let is_accepted =
        |probe: &Probe| probe.proxy_protocol == Some(true) && probe.outcome == Outcome::Answered;
    probes::proxy_protocol_annotation(subject).is_some() || found.iter().any(|(_, probe)| is_accepted(probe))
}

/// Reports that the endpoint accepts connections, and resets or closes them, or sends no response.
fn no_response(subject: &Subject<'_>, found: &[ObservedProbe<'_>]) -> Option<Finding> {
    if expects_header(subject, found) {
        return None;
    }
    let is_open = |target: &str| {
        found.iter().any(|(_, probe)| {
            probe.target == target && probe.kind == ProbeKind::Tcp && probe.outcome == Outcome::Answered
        })
    };
    let is_at_fault = |probe: &Probe| {
        let is_fault = match probe.outcome {
            Outcome::Reset => true,
            // Simple servers close a connection at once that they only accept.
            Outcome::Closed => probe.kind != ProbeKind::Tcp,
            Outcome::Timeout => probe.kind != ProbeKind::Tcp && is_open(&probe.target),
            _ => false,
        };
        is_fault && is_of_protocol(subject, probe)
    };
    let first = found.iter().find(|(_, probe)| is_at_fault(probe))?;
    let (_, probe) = *first;
    let responds = found
        .iter()
        .any(|(_, other)| other.kind == probe.kind && other.outcome == Outcome::Answered);
    let severity = if responds {
        Severity::Warning
    } else {
        Severity::Error
    };
    let effect = match probe.outcome {
        Outcome::Reset => "resets them",
        Outcome::Closed => "closes them without a response",
        _ => "sends no response",
    };
    let message = format!(
        "The endpoint {} of Service {} accepts connections and {effect}",
        probe.target, subject.service.name
    );
    let finding = subject.finding(CODE, severity, "", message, log(subject, probe));
    Some(finding.with_evidence(probes::description(*first)))
}

/// Returns the command that prints the log of the Pod at a target.
fn log(subject: &Subject<'_>, probe: &Probe) -> String {
    let pod = probe
        .address()
        .and_then(|address| subject.world.pods_at(address).next());
    match pod {
        Some(pod) => format!(
            "The fault is in the application. Read its log: kubectl -n {} logs {}",
            pod.namespace, pod.name
        ),
        None => "The fault is in the application. Read its log".to_owned(),
    }
}

fn slow_response(subject: &Subject<'_>, found: &[ObservedProbe<'_>]) -> Option<Finding> {
    let first = found.iter().find(|(_, probe)| {
        probe.kind != ProbeKind::Tcp
            && probe.outcome == Outcome::Answered
            && probe.milliseconds.is_some_and(|time| time >= SLOW_MILLISECONDS)
    })?;
    let (_, probe) = *first;
    let message = format!(
        "The endpoint {} of Service {} answers after {} ms",
        probe.target,
        subject.service.name,
        probe.milliseconds.unwrap_or_default()
    );
    let finding = subject.finding(CODE, Severity::Warning, "", message, log(subject, probe));
    Some(finding.with_evidence(probes::description(*first)))
}

/// Reports that a Pod has a variable with a former cluster IP of the Service.
fn variable(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let addresses = service.cluster_ips();
    let name = service.name.to_ascii_uppercase().replace('-', "_") + HOST_VARIABLE;
    let observations = subject.world.observations().all().iter();
    let mut variables = observations.flat_map(|observation| observation.service_variables.iter().flatten());
    let variable = variables.find(|variable| {
        let value = variable.value.parse();
        let is_former = value.is_ok_and(|value| !addresses.is_empty() && !addresses.contains(&value));
        variable.pod.namespace == service.namespace && variable.name == name && is_former
    })?;
    let pod = subject
        .world
        .object(Kind::Pod, &variable.pod.namespace, &variable.pod.name)?;
    if sets_itself(Pod(pod), &name) {
        return None;
    }
    let message = format!(
        "Pod {} has {name}={}, a former cluster IP of Service {}. The kubelet sets the variable when a container starts",
        pod.name, variable.value, service.name
    );
    let remedy = format!(
        "Replace the Pod, and let the application use the DNS name: {}",
        kubectl::command("delete", pod)
    );
    Some(subject.finding(CODE, Severity::Warning, "spec.clusterIP", message, remedy))
}

/// Returns true if the Pod itself defines the variable, so that the kubelet does not set it.
fn sets_itself(pod: Pod<'_>, name: &str) -> bool {
    let mut variables = pod.containers().flat_map(|container| list(container, "env"));
    variables.any(|variable| text(variable, "name") == name)
}
