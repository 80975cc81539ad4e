//! PTL-0028: session affinity sends all clients to one endpoint.

use std::collections::BTreeSet;

use super::{node_unusable, not_ready_published, pods_not_ready, pods_not_running, service_terminating};
use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::Subject;
use crate::views::{Pod, Route};

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("affinity_behind_ingress.md"),
    explained_by: &[
        pods_not_ready::CODE,
        pods_not_running::CODE,
        not_ready_published::CODE,
        service_terminating::CODE,
        node_unusable::CODE,
    ],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(28);
/// Minimum number of restarts of a Pod that fails repeatedly.
const RESTARTS_MIN: i64 = 10;
const FIELD: &str = "spec.sessionAffinity";
/// Annotations that let an Ingress controller use the cluster IP instead of the endpoints.
const CLUSTER_IP_ANNOTATIONS: [&str; 2] = [
    "nginx.ingress.kubernetes.io/service-upstream",
    "nginx.org/use-cluster-ip",
];
/// Annotations of a Service with the same meaning, of Traefik and Kong.
const SERVICE_ANNOTATIONS: [&str; 2] = [
    "traefik.ingress.kubernetes.io/service.nativelb",
    "ingress.kubernetes.io/service-upstream",
];

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    if service.0.text("/spec/sessionAffinity") != "ClientIP" {
        return Vec::new();
    }
    if service.is_headless() {
        return headless_service(subject).into_iter().collect();
    }
    behind_ingress(subject)
        .or_else(|| behind_proxy(subject))
        .or_else(|| failing_endpoint(subject))
        .into_iter()
        .collect()
}

fn headless_service(subject: &Subject<'_>) -> Option<Finding> {
    let message = format!(
        "Service {} is headless, so its sessionAffinity has no effect: clients choose among the addresses of the Pods",
        subject.service.name
    );
    let finding = subject.finding(CODE, Severity::Info, FIELD, message, removal(subject));
    subject.is_named.then_some(finding)
}

/// Returns the command that removes the affinity.
fn removal(subject: &Subject<'_>) -> String {
    format!(
        "If connections need not stay at one endpoint: {}",
        kubectl::replace(subject.service.0, "/spec/sessionAffinity", "None")
    )
}

/// Returns the number of ready endpoints.
fn ready_endpoint_count(subject: &Subject<'_>) -> usize {
    let endpoints = subject.slices().iter().flat_map(|slice| slice.endpoints());
    let ready: BTreeSet<_> = endpoints
        .filter(|endpoint| endpoint.is_ready())
        .filter_map(|endpoint| endpoint.ip())
        .collect();
    ready.len()
}

/// Reports that all clients have the address of the Ingress controller, so all of them get the same endpoint.
fn behind_ingress(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let uses_cluster_ip = |ingress: &Route<'_>| {
        let mut annotations = CLUSTER_IP_ANNOTATIONS.iter();
        let mut service_annotations = SERVICE_ANNOTATIONS.iter();
        annotations.any(|name| ingress.0.annotation(name) == Some("true"))
            || service_annotations.any(|name| service.0.annotation(name) == Some("true"))
    };
    let ingress = subject.world.ingresses_of(service).find(uses_cluster_ip)?;
    let count = ready_endpoint_count(subject);
    let message = format!(
        "sessionAffinity of Service {} is ClientIP, and the controller of Ingress {} connects to the cluster IP. All its clients have the address \
         of the controller, so one of {count} endpoints gets all requests",
        service.name, ingress.name
    );
    (count > 1).then(|| subject.finding(CODE, Severity::Warning, FIELD, message, cookie(subject)))
}

fn cookie(subject: &Subject<'_>) -> String {
    format!(
        "Use the affinity of the Ingress controller instead, for example with a cookie: {}",
        kubectl::replace(subject.service.0, "/spec/sessionAffinity", "None")
    )
}

/// Reports a load balancer that is a proxy: it connects with addresses of its own.
fn behind_proxy(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let mut entries = service.0.list("/status/loadBalancer/ingress").iter();
    let entry = entries.find(|entry| entry["ipMode"] == "Proxy")?;
    let address = entry["ip"].as_str().unwrap_or_default();
    let message = format!(
        "sessionAffinity of Service {} is ClientIP, and the load balancer {address} is a proxy (ipMode Proxy). All clients have its addresses, so \
         they share endpoints",
        service.name
    );
    let remedy = format!(
        "Use the affinity of the load balancer instead: {}",
        kubectl::replace(service.0, "/spec/sessionAffinity", "None")
    );
    (ready_endpoint_count(subject) > 1)
        .then(|| subject.finding(CODE, Severity::Warning, FIELD, message, remedy))
}

/// Reports a Pod that restarts repeatedly: it is ready in between, and its clients stay with it.
fn failing_endpoint(subject: &Subject<'_>) -> Option<Finding> {
    let restarts = |pod: Pod<'_>| -> i64 {
        let statuses = pod.container_statuses();
        statuses
            .filter_map(|status| status["restartCount"].as_i64())
            .sum()
    };
    let ready: Vec<Pod<'_>> = subject.active().filter(|pod| pod.is_ready()).collect();
    let worst = ready.iter().max_by_key(|pod| restarts(**pod))?;
    let has_stable = ready.iter().any(|pod| restarts(*pod) < RESTARTS_MIN);
    if restarts(*worst) < RESTARTS_MIN || !has_stable {
        return None;
    }
    let message = format!(
        "sessionAffinity of Service {} is ClientIP: clients of Pod {} stay with it, although it restarted {} times",
        subject.service.name,
        worst.name,
        restarts(*worst)
    );
    let finding = subject.finding(CODE, Severity::Warning, FIELD, message, removal(subject));
    Some(finding.with_evidence(format!("Pod {} has {} restarts", worst.name, restarts(*worst))))
}
