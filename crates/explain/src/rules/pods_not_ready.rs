//! PTL-0004: the Pods are not ready.

use serde_json::Value;

use super::{node_unusable, not_ready_published, service_terminating};
use crate::facts::leader_election::is_leader_only;
use crate::facts::pod_state::failure;
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::{Subject, finding_about};
use crate::views::Pod;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("pods_not_ready.md"),
    explained_by: &[
        not_ready_published::CODE,
        service_terminating::CODE,
        node_unusable::CODE,
    ],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(4);

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if subject.service.publishes_not_ready() || subject.service.is_external_name() {
        return Vec::new();
    }
    let is_known = subject.has(Kind::Pod) && subject.service.has_selector();
    let finding = if is_known {
        unready_pods(subject)
    } else {
        slices_without_ready_endpoint(subject)
    };
    finding.into_iter().collect()
}

fn unready_pods(subject: &Subject<'_>) -> Option<Finding> {
    let active: Vec<Pod<'_>> = subject.active().collect();
    let is_unready = |pod: &&Pod<'_>| {
        let runs = pod.phase() == "Running" || pod.phase().is_empty() && pod.condition("Ready").is_some();
        runs && !pod.is_ready() && failure(subject.world, **pod).is_none()
    };
    let unready: Vec<&Pod<'_>> = active.iter().filter(is_unready).collect();
    let pod = unready.first()?;
    let severity = if subject.has_ready_endpoint() {
        Severity::Warning
    } else {
        Severity::Error
    };
    if severity == Severity::Warning && (subject.is_rolling() || is_leader_only(subject)) {
        return None;
    }
    let (field, probe) = readiness(**pod);
    let observed = observation(subject, **pod);
    let message = format!(
        "{} of {} Pods of Service {} run and are not ready. Pod {}: {probe}{}",
        unready.len(),
        active.len(),
        subject.service.name,
        pod.name,
        observed.map_or_else(String::new, |observed| format!(". Last message: {observed}"))
    );
    let remedy = format!(
        "Correct what the probe checks, or the probe. Results of the probe: {}",
        kubectl::command("describe", pod.0)
    );
    let mut finding = finding_about(pod.0, CODE, severity, field, message, remedy);
    for pod in unready {
        finding = finding.with_evidence(format!("Pod {} has the condition Ready=False", pod.name));
    }
    Some(finding)
}

/// Returns the field that decides about readiness, and its description.
fn readiness(pod: Pod<'_>) -> (String, String) {
    for gate in pod.list("/spec/readinessGates") {
        let kind = gate["conditionType"].as_str().unwrap_or_default();
        if !pod.has_condition(kind, "True") {
            return (
                "spec.readinessGates".to_owned(),
                format!("the readiness gate {kind} is not true"),
            );
        }
    }
    let statuses = pod.list("/status/containerStatuses");
    let is_unready = |name: &Value| {
        let mut container_statuses = statuses.iter().filter(|status| status["name"] == *name);
        container_statuses.any(|status| status["ready"] == false)
    };
    for (index, container) in pod.list("/spec/containers").iter().enumerate() {
        if !is_unready(&container["name"]) {
            continue;
        }
        let name = container["name"].as_str().unwrap_or_default();
        let mut container_statuses = statuses
            .iter()
            .filter(|status| status["name"] == container["name"]);
        let is_starting = container_statuses.any(|status| status["started"] == false);
        let kinds = if is_starting {
            ["startupProbe", "readinessProbe"]
        } else {
            ["readinessProbe", "startupProbe"]
        };
        for kind in kinds {
            if container[kind].is_object() {
                let description = describe_probe(&container[kind]);
                return (
                    format!("spec.containers[{index}].{kind}"),
                    format!("the {kind} of container {name} fails ({description})"),
                );
            }
        }
        return (
            "status.containerStatuses".to_owned(),
            format!("container {name} is not ready"),
        );
    }
    (
        "status.conditions".to_owned(),
        "the condition Ready is false".to_owned(),
    )
}

fn describe_probe(probe: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (http, tcp, grpc) = (&probe["httpGet"], &probe["tcpSocket"], &probe["grpc"]);
    if http.is_object() {
        let path = http["path"].as_str().unwrap_or("/");
        return format!("HTTP GET {path} on port {}", text(&http["port"]));
    }
    if tcp.is_object() {
        return format!("TCP connection to port {}", text(&tcp["port"]));
    }
    if grpc.is_object() {
        return format!("gRPC health check on port {}", text(&grpc["port"]));
    }
    let command = probe["exec"]["command"].as_array().into_iter().flatten();
    let command: Vec<&str> = command.filter_map(Value::as_str).collect();
    format!("command {}", command.join(" "))
}

/// Returns the last message about a probe: that of an Event, or that of the condition.
fn observation(subject: &Subject<'_>, pod: Pod<'_>) -> Option<String> {
    let message = match subject.world.latest_event(pod.0, &["Unhealthy", "ProbeWarning"]) {
        Some(event) => event.message(),
        None => pod.condition("Ready")?["message"].as_str()?,
    };
    let message = message.trim().trim_end_matches('.').replace('\n', " ");
    (!message.is_empty()).then_some(message)
}

/// Slices alone show that no endpoint is ready: hand-made ones, or those of a dump without Pods.
fn slices_without_ready_endpoint(subject: &Subject<'_>) -> Option<Finding> {
    let slices = subject.slices().iter();
    let endpoints: Vec<_> = slices
        .flat_map(|slice| slice.endpoints().map(move |endpoint| (slice, endpoint)))
        .collect();
    let (slice, _) = endpoints.first()?;
    if endpoints.iter().any(|(_, endpoint)| endpoint.is_serving()) {
        return None;
    }
    let message = format!(
        "None of the {} endpoints of Service {} is ready",
        endpoints.len(),
        subject.service.name
    );
    if let Some(listed) = subject
        .world
        .endpoints_of(subject.service)
        .filter(|_| !subject.has(Kind::EndpointSlice))
    {
        let field = "subsets[0].notReadyAddresses";
        let remedy = format!(
            "Find the reason in the Pods: kubectl -n {} get pods",
            listed.namespace
        );
        return Some(finding_about(
            listed.0,
            CODE,
            Severity::Error,
            field,
            message,
            remedy,
        ));
    }
    let remedy = if subject.is_from_selector(**slice) {
        format!(
            "Find the reason in the Pods: kubectl -n {} get pods",
            subject.service.namespace
        )
    } else {
        format!(
            "Set conditions.ready of the endpoints that serve: {}",
            kubectl::command("edit", slice.0)
        )
    };
    Some(finding_about(
        slice.0,
        CODE,
        Severity::Error,
        "endpoints[0].conditions.ready",
        message,
        remedy,
    ))
}
