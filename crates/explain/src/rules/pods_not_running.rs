//! PTL-0005: the Pods do not run.

use super::{node_unusable, not_ready_published, service_terminating};
use crate::facts::pod_state::{Failure, failure};
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::{Subject, finding_about, workload_of};
use crate::views::{Pod, Workload};

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("pods_not_running.md"),
    explained_by: &[
        not_ready_published::CODE,
        service_terminating::CODE,
        node_unusable::CODE,
    ],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(5);
/// Kinds whose Pods run until they are deleted, besides Pods without a controller.
const SERVERS: [Kind; 5] = [
    Kind::Pod,
    Kind::Deployment,
    Kind::ReplicaSet,
    Kind::StatefulSet,
    Kind::DaemonSet,
];

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if !subject.service.has_selector() || !subject.has(Kind::Pod) {
        return Vec::new();
    }
    let is_left = |pod: &Pod<'_>| pod.is_finished() || pod.0.is_terminating();
    let finding = if subject.lacks_pods() {
        None
    } else if subject.selected().is_empty() {
        workload_without_pods(subject)
    } else if subject.has_only_replaced() {
        // The selector is at fault.
        None
    } else if subject.selected().iter().all(is_left) {
        all_finished(subject)
    } else {
        failing_pod(subject)
    };
    finding.into_iter().collect()
}

/// Reports Pods that fail or wait. While other Pods are ready, Pods that wait during a rolling update are not reported.
fn failing_pod(subject: &Subject<'_>) -> Option<Finding> {
    let active: Vec<Pod<'_>> = subject.active().collect();
    let mut failures: Vec<(Pod<'_>, Failure)> = active
        .iter()
        .filter(|pod| !pod.is_ready())
        .filter_map(|pod| Some((*pod, failure(subject.world, *pod)?)))
        .collect();
    let has_ready = subject.has_ready_endpoint();
    if has_ready {
        let is_rolling = subject.is_rolling();
        failures.retain(|(_, failure)| {
            !failure.is_waiting || failure.field == "status.conditions" && !is_rolling
        });
    }
    failures.sort_by_key(|(_, failure)| failure.is_waiting);
    let (pod, failure) = failures.first()?;
    let severity = if has_ready {
        Severity::Warning
    } else {
        Severity::Error
    };
    let container = match failure.container.as_str() {
        "" => String::new(),
        container => format!(", container {container}"),
    };
    let message = format!(
        "{} of {} Pods of Service {} do not run. Pod {}{container}: {}",
        failures.len(),
        active.len(),
        subject.service.name,
        pod.name,
        failure.text
    );
    let remedy = match failure.container.as_str() {
        "" => format!(
            "Remove the reason. Its history: {}",
            kubectl::command("describe", pod.0)
        ),
        container => format!(
            "Remove the reason. The log of the last run: kubectl -n {} logs {} -c {} --previous",
            pod.namespace,
            pod.name,
            kubectl::word(container)
        ),
    };
    let mut finding = finding_about(pod.0, CODE, severity, failure.field.clone(), message, remedy);
    for (pod, failure) in &failures {
        finding = finding.with_evidence(format!("Pod {}: {}", pod.name, failure.text));
    }
    Some(finding)
}

/// Reports that only finished Pods are left. Finished Pods of Jobs are not faults; they are reported if the user names
/// the Service. Neither are those of a workload that was scaled to 0 later.
fn all_finished(subject: &Subject<'_>) -> Option<Finding> {
    if is_scaled_to_zero(subject) {
        return None;
    }
    if !subject.selected().iter().any(|pod| pod.is_finished()) {
        return all_terminating(subject);
    }
    let is_job = |pod: &Pod<'_>| workload_of(*pod).0 == Kind::Job.name();
    let mut pods = subject.selected().iter();
    let failed = pods.find(|pod| pod.phase() == "Failed" && !is_job(pod));
    let mut finished = subject.selected().iter().filter(|pod| pod.is_finished());
    let ended = failed.or_else(|| finished.clone().find(|pod| is_server(subject, **pod)));
    let pod = ended.or(finished.next())?;
    let severity = match ended {
        Some(_) => Severity::Error,
        None if subject.is_named => Severity::Info,
        None => return None,
    };
    let reason = match (pod.text("/status/reason"), pod.text("/status/message")) {
        ("", _) => pod.phase().to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {}", message.trim().trim_end_matches('.')),
    };
    let message = format!(
        "All {} Pods of Service {} have finished. Pod {}: {reason}",
        subject.selected().len(),
        subject.service.name,
        pod.name
    );
    let remedy = if pod.0.controller().is_some() {
        format!(
            "Remove the reason, so that its controller can replace the Pod: {}",
            kubectl::command("describe", pod.0)
        )
    } else {
        format!(
            "Create the Pod again, from a Deployment: {}",
            kubectl::command("delete", pod.0)
        )
    };
    Some(finding_about(
        pod.0,
        CODE,
        severity,
        "status.phase",
        message,
        remedy,
    ))
}

/// Returns true if a Pod should run until it is deleted. The owner of other Pods, such as a driver of a batch system,
/// can end them on purpose. Batch systems use headless Services.
fn is_server(subject: &Subject<'_>, pod: Pod<'_>) -> bool {
    let (kind, _) = workload_of(pod);
    !subject.service.is_headless() && SERVERS.iter().any(|server| server.name() == kind)
}

/// Returns true if all workloads of the Service are scaled to 0.
fn is_scaled_to_zero(subject: &Subject<'_>) -> bool {
    let service = subject.service;
    let workloads = subject
        .world
        .workloads_with(&service.namespace, &service.selector());
    !workloads.is_empty() && workloads.iter().all(|workload| workload.desired() == 0)
}

/// Reports that all Pods are being deleted, although no workload is scaled to 0.
fn all_terminating(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    if subject.is_rolling() {
        return None;
    }
    let pod = subject.selected().first()?;
    // Without other endpoints, terminating endpoints receive connections while they serve.
    let mut endpoints = subject.slices().iter().flat_map(|slice| slice.endpoints());
    let severity = if endpoints.any(|endpoint| endpoint.is_serving()) {
        Severity::Warning
    } else {
        Severity::Error
    };
    let message = format!(
        "All {} Pods of Service {} are being deleted, and no other Pod replaces them. Pod {} has been terminating since {}",
        subject.selected().len(),
        service.name,
        pod.name,
        pod.text("/metadata/deletionTimestamp")
    );
    let remedy = format!(
        "Create other Pods, or find out why the deletion does not end: {}",
        kubectl::command("describe", pod.0)
    );
    Some(finding_about(
        pod.0,
        CODE,
        severity,
        "metadata.deletionTimestamp",
        message,
        remedy,
    ))
}

/// Reports that a workload should have Pods and has none.
fn workload_without_pods(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let workloads = subject
        .world
        .workloads_with(&service.namespace, &service.selector());
    let mut wanting = workloads.iter().filter(|workload| workload.desired() > 0);
    let workload = wanting
        .clone()
        .find(|workload| workload.failure().is_some())
        .or(wanting.next())?;
    let event = subject.world.latest_event(workload.0, &["FailedCreate"]);
    let reason = workload
        .failure()
        .or(event.map(|event| event.message()))
        .map(|reason| format!(": {reason}"));
    let message = format!(
        "{} {}, whose Pods the selector matches, should have {} Pods and has none{}",
        workload.kind.name(),
        workload.name,
        workload.desired(),
        reason.unwrap_or_default().trim_end_matches('.')
    );
    let remedy = format!(
        "Remove the reason that its Events name: {}",
        kubectl::command("describe", workload.0)
    );
    Some(finding_about(
        workload.0,
        CODE,
        Severity::Error,
        status_field(workload),
        message,
        remedy,
    ))
}

fn status_field(workload: &Workload<'_>) -> &'static str {
    if workload.failure().is_some() {
        "status.conditions"
    } else {
        "status.replicas"
    }
}
