//! PTL-0020: the Service publishes Pods that are not ready.

use super::{node_unusable, service_terminating};
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::{Subject, workload_of};
use crate::views::Pod;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("not_ready_published.md"),
    explained_by: &[service_terminating::CODE, node_unusable::CODE],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(20);
const FIELD: &str = "spec.publishNotReadyAddresses";

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    if !service.publishes_not_ready() || !service.has_selector() || !subject.knows_endpoints() {
        return Vec::new();
    }
    if subject.is_rolling() || is_of_members(subject) {
        return Vec::new();
    }
    let unready: Vec<Pod<'_>> = subject
        .active()
        .filter(|pod| pod.has_condition("Ready", "False") && is_used(subject, *pod))
        .collect();
    let Some(first) = unready.first() else {
        return Vec::new();
    };
    let message = format!(
        "publishNotReadyAddresses is true, so Service {} sends connections to {} that {} not ready, such as {}",
        service.name,
        if unready.len() == 1 {
            "1 Pod".to_owned()
        } else {
            format!("{} Pods", unready.len())
        },
        if unready.len() == 1 { "is" } else { "are" },
        first.name
    );
    let remedy = format!(
        "If only members of the application need these addresses, give them a headless Service of their own. For this Service: {}",
        kubectl::replace(service.0, "/spec/publishNotReadyAddresses", false)
    );
    let mut finding = subject.finding(CODE, Severity::Warning, FIELD, message, remedy);
    for pod in unready {
        finding = finding.with_evidence(format!(
            "Pod {} has the condition Ready=False and is an endpoint",
            pod.name
        ));
    }
    vec![finding]
}

/// Returns true for the headless Service of a StatefulSet, whose members find each other before they are ready. The
/// controller writes its name into the subdomain of the Pods.
fn is_of_members(subject: &Subject<'_>) -> bool {
    let service = subject.service;
    let is_member = |pod: Pod<'_>| {
        let subdomain = pod.0.text("/spec/subdomain");
        workload_of(pod).0 == Kind::StatefulSet.name()
            && (subdomain.is_empty() || subdomain == service.0.name)
    };
    service.is_headless() && subject.active().all(is_member)
}

/// Returns true if the Pod is an endpoint that receives connections.
fn is_used(subject: &Subject<'_>, pod: Pod<'_>) -> bool {
    let mut endpoints = subject.slices().iter().flat_map(|slice| slice.endpoints());
    endpoints.any(|endpoint| endpoint.is_ready() && endpoint.ip().is_some_and(|ip| pod.ips().contains(&ip)))
}
