//! PTL-0028.

use std::collections::BTreeSet;

use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::Subject;
use crate::views::Ingress;

pub const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("affinity_behind_ingress.md"),
    explained_by: &[],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(28);
/// Default duration of an affinity (API-33).
const AFFINITY_SECONDS: i64 = 10_800;
const FIELD: &str = "spec.sessionAffinity";
/// Annotations that let an Ingress controller use the cluster IP instead of the endpoints.
const CLUSTER_IP_ANNOTATIONS: [&str; 2] = [
    "nginx.ingress.kubernetes.io/service-upstream",
    "nginx.org/use-cluster-ip",
];
/// Annotation of a Service with the same meaning.
const SERVICE_ANNOTATION: &str = "traefik.ingress.kubernetes.io/service.nativelb";

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    if service.0.text("/spec/sessionAffinity") != "ClientIP" {
        return Vec::new();
    }
    if service.is_headless() {
        return headless(subject).into_iter().collect();
    }
    behind_ingress(subject)
        .or_else(|| shared_address(subject))
        .into_iter()
        .collect()
}

fn headless(subject: &Subject<'_>) -> Option<Finding> {
    let message = format!(
        "Service {} is headless, so its sessionAffinity has no effect: clients choose among the addresses of the Pods",
        subject.service.name
    );
    let remedy = format!(
        "Remove it: {}",
        kubectl::replace(subject.service.0, "/spec/sessionAffinity", "None")
    );
    let finding = subject.finding(CODE, Severity::Info, FIELD, message, remedy);
    subject.is_named.then_some(finding)
}

/// Clients behind one NAT have one address, and a client keeps an endpoint that fails without becoming unready. The user learns of
/// it if he names the Service.
fn shared_address(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let seconds = service.number("/spec/sessionAffinityConfig/clientIP/timeoutSeconds");
    let message = format!(
        "sessionAffinity of Service {} is ClientIP: a client address keeps its endpoint for {} seconds. Clients behind one NAT share an endpoint",
        service.name,
        seconds.unwrap_or(AFFINITY_SECONDS)
    );
    let remedy = format!(
        "If connections need not stay at one endpoint: {}",
        kubectl::replace(service.0, "/spec/sessionAffinity", "None")
    );
    let finding = subject.finding(CODE, Severity::Info, FIELD, message, remedy);
    subject.is_named.then_some(finding)
}

/// All clients have the address of the Ingress controller, so all of them get the same endpoint.
fn behind_ingress(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let endpoints = subject.slices().iter().flat_map(|slice| slice.endpoints());
    let ready: BTreeSet<_> = endpoints
        .filter(|endpoint| endpoint.is_ready())
        .filter_map(|endpoint| endpoint.ip())
        .collect();
    let uses_cluster_ip = |ingress: &Ingress<'_>| {
        let mut annotations = CLUSTER_IP_ANNOTATIONS.iter();
        annotations.any(|name| ingress.0.annotation(name) == Some("true"))
            || service.0.annotation(SERVICE_ANNOTATION) == Some("true")
    };
    let ingress = subject
        .world
        .ingresses_of(service)
        .find(uses_cluster_ip)
        .filter(|_| ready.len() > 1)?;
    let message = format!(
        "sessionAffinity of Service {} is ClientIP, and the controller of Ingress {} connects to the cluster IP. All its clients have the address \
         of the controller, so one of {} endpoints gets all requests",
        service.name,
        ingress.name,
        ready.len()
    );
    let remedy = format!(
        "Use the affinity of the Ingress controller instead, for example with a cookie: {}",
        kubectl::replace(service.0, "/spec/sessionAffinity", "None")
    );
    Some(subject.finding(CODE, Severity::Warning, FIELD, message, remedy))
}
