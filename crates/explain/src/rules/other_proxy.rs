//! PTL-0031: a label assigns the Service to another proxy.

use super::service_terminating;
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::{Subject, finding_about};

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("other_proxy.md"),
    explained_by: &[service_terminating::CODE],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(31);
/// Label of Services for another proxy (API-48).
const PROXY_NAME_LABEL: &str = "service.kubernetes.io/service-proxy-name";
/// Label of slices that proxies ignore (API-49).
const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";
/// Values that name kube-proxy or Portolan, which ignore Services with the label, or that name no proxy.
const MISUSED_PROXY_NAMES: [&str; 14] = [
    "",
    "kube-proxy",
    "kubeproxy",
    "portolan",
    "true",
    "false",
    "yes",
    "no",
    "none",
    "default",
    "disabled",
    "iptables",
    "ipvs",
    "nftables",
];

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    if service.is_headless() || service.is_external_name() {
        return Vec::new();
    }
    match service.label(PROXY_NAME_LABEL) {
        Some(proxy) => labelled_for_other_proxy(subject, proxy).into_iter().collect(),
        None if service.label(HEADLESS_LABEL).is_some() => vec![labelled_headless(subject)],
        None => labelled_slices(subject),
    }
}

/// Reports the label of slices at the Service itself. kube-proxy 1.36 reads the label of slices only (KPR-01).
fn labelled_headless(subject: &Subject<'_>) -> Finding {
    let message = format!(
        "Service {} has the label {HEADLESS_LABEL}, although it has a cluster IP: Portolan serves it, and kube-proxy up to \
         version 1.34 ignores it",
        subject.service.name
    );
    let remedy = format!(
        "{} {HEADLESS_LABEL}-",
        kubectl::command("label", subject.service.0)
    );
    let field = format!("metadata.labels[{HEADLESS_LABEL}]");
    subject.finding(CODE, Severity::Warning, field, message, remedy)
}

/// The label means another proxy. The objects do not show if it runs, except if the value names one that ignores the
/// label.
fn labelled_for_other_proxy(subject: &Subject<'_>, proxy: &str) -> Option<Finding> {
    let is_mistaken = MISUSED_PROXY_NAMES.contains(&proxy);
    let severity = match is_running(subject, proxy) {
        _ if is_mistaken => Severity::Error,
        Some(true) => return None,
        Some(false) => Severity::Warning,
        None if subject.is_named => Severity::Info,
        None => return None,
    };
    let reason = if is_mistaken {
        "kube-proxy and Portolan ignore Services with this label, regardless of its value".to_owned()
    } else {
        format!("only the proxy {proxy} serves it. kube-proxy and Portolan ignore it")
    };
    let message = format!(
        "Service {} has the label {PROXY_NAME_LABEL}={proxy}: {reason}",
        subject.service.name
    );
    let remedy = format!(
        "Remove the label, or run the proxy that it names: {} {PROXY_NAME_LABEL}-",
        kubectl::command("label", subject.service.0)
    );
    let field = format!("metadata.labels[{PROXY_NAME_LABEL}]");
    Some(subject.finding(CODE, severity, field, message, remedy))
}

/// Returns true if the input has a Pod or workload of the proxy; `None` if it has no Pods, so that the proxy is
/// unknown.
fn is_running(subject: &Subject<'_>, proxy: &str) -> Option<bool> {
    if !subject.has(Kind::Pod) {
        return None;
    }
    let kinds = [Kind::Pod, Kind::Deployment, Kind::DaemonSet];
    let mut objects = kinds.into_iter().flat_map(|kind| subject.world.all(kind));
    Some(objects.any(|object| {
        let is_named = |name: &str| name.contains(proxy);
        let is_label = |label: &str| object.label(label).is_some_and(is_named);
        is_named(&object.name) || is_label("app") || is_label("k8s-app") || is_label("app.kubernetes.io/name")
    }))
}

/// Reports that all slices of the Service have the label for which proxies ignore them.
fn labelled_slices(subject: &Subject<'_>) -> Vec<Finding> {
    if !subject.has(Kind::EndpointSlice) {
        return Vec::new();
    }
    let slices = subject.slices();
    let is_ignored = slices.iter().all(|slice| slice.label(HEADLESS_LABEL).is_some());
    let Some(slice) = slices.first().filter(|_| is_ignored) else {
        return Vec::new();
    };
    let message = format!(
        "EndpointSlice {} of Service {} has the label {HEADLESS_LABEL}, so proxies ignore it",
        slice.name, subject.service.name
    );
    let remedy = format!("{} {HEADLESS_LABEL}-", kubectl::command("label", slice.0));
    let field = format!("metadata.labels[{HEADLESS_LABEL}]");
    vec![finding_about(
        slice.0,
        CODE,
        Severity::Error,
        field,
        message,
        remedy,
    )]
}
