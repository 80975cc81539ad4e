//! PTL-0034: an annotation is unknown or ambiguous.

mod vendors;

use plan::Fault;

use super::service_terminating;
use crate::facts::service_plan::plan_of;
use crate::facts::similar_names::nearest_name;
use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::Subject;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("../annotation_unknown.md"),
    explained_by: &[service_terminating::CODE],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(34);
/// Prefixes of annotations that only Portolan reads.
const PREFIXES: [&str; 2] = ["portolan.dev/", "service.portolan.dev/"];
/// Annotations of Services that Portolan reads. A test compares them with the load balancer reference.
const KNOWN: [&str; 52] = [
    "portolan.dev/load-balancer-ips",
    "portolan.dev/address-pool",
    "portolan.dev/allow-shared-ip",
    "portolan.dev/load-balancer-scope",
    "portolan.dev/load-balancer-hostname",
    "portolan.dev/load-balancer-node-selector",
    "portolan.dev/edge-certificates",
    "portolan.dev/edge-tls-ports",
    "portolan.dev/edge-tls-policy",
    "portolan.dev/edge-alpn",
    "portolan.dev/edge-protocol",
    "portolan.dev/edge-backend-protocol",
    "portolan.dev/edge-redirect-to-https",
    "portolan.dev/edge-proxy-protocol",
    "portolan.dev/edge-accept-proxy-protocol-from",
    "portolan.dev/edge-balance",
    "portolan.dev/edge-sticky",
    "portolan.dev/edge-sticky-seconds",
    "portolan.dev/edge-cookie-name",
    "portolan.dev/edge-idle-timeout-seconds",
    "portolan.dev/edge-connect-timeout-seconds",
    "portolan.dev/edge-draining-seconds",
    "portolan.dev/edge-connections-max",
    "portolan.dev/edge-connections-per-client",
    "portolan.dev/edge-connections-per-second",
    "portolan.dev/edge-received-megabits-per-second",
    "portolan.dev/edge-sent-megabits-per-second",
    "portolan.dev/edge-megabits-per-second",
    "portolan.dev/edge-cross-zone",
    "portolan.dev/edge-access-log",
    "portolan.dev/edge-access-log-bucket",
    "portolan.dev/edge-access-log-prefix",
    "portolan.dev/edge-access-log-interval-seconds",
    "portolan.dev/edge-access-log-format",
    "portolan.dev/edge-health-check-protocol",
    "portolan.dev/edge-health-check-port",
    "portolan.dev/edge-health-check-path",
    "portolan.dev/edge-health-check-host",
    "portolan.dev/edge-health-check-statuses",
    "portolan.dev/edge-health-check-interval-seconds",
    "portolan.dev/edge-health-check-timeout-seconds",
    "portolan.dev/edge-health-check-healthy-threshold",
    "portolan.dev/edge-health-check-unhealthy-threshold",
    "service.portolan.dev/scheduler",
    "service.portolan.dev/drain-seconds",
    "service.portolan.dev/port-ranges",
    "service.portolan.dev/keep-unready-flows",
    "service.portolan.dev/max-connection-age-seconds",
    "service.portolan.dev/rebalance-percent",
    "service.portolan.dev/egress",
    "service.portolan.dev/two-tier-forwarding",
    "service.portolan.dev/two-tier-forwarding-from-pool",
];
/// Annotations with the same meaning. Different values contradict each other.
const EQUIVALENT_ANNOTATIONS: [&[&str]; 8] = [
    &[
        "portolan.dev/load-balancer-ips",
        "metallb.io/loadBalancerIPs",
        "metallb.universe.tf/loadBalancerIPs",
    ],
    &[
        "portolan.dev/address-pool",
        "metallb.io/address-pool",
        "metallb.universe.tf/address-pool",
    ],
    &[
        "portolan.dev/allow-shared-ip",
        "metallb.io/allow-shared-ip",
        "metallb.universe.tf/allow-shared-ip",
    ],
    &[
        "service.kubernetes.io/topology-mode",
        "service.kubernetes.io/topology-aware-hints",
    ],
    &[
        "networking.gke.io/load-balancer-type",
        "cloud.google.com/load-balancer-type",
    ],
    &["lbipam.cilium.io/ips", "io.cilium/lb-ipam-ips"],
    &["lbipam.cilium.io/sharing-key", "io.cilium/lb-ipam-sharing-key"],
    &["service.cilium.io/global", "io.cilium/global-service"],
];

/// Annotations with requested addresses that are read in addition to the field of the Service.
const ADDRESSES: [&str; 3] = [
    "portolan.dev/load-balancer-ips",
    "metallb.io/loadBalancerIPs",
    "metallb.universe.tf/loadBalancerIPs",
];
/// Annotations for the scheme of an AWS load balancer, the older one first.
const AWS_SCHEMES: [&str; 2] = [
    "service.beta.kubernetes.io/aws-load-balancer-internal",
    "service.beta.kubernetes.io/aws-load-balancer-scheme",
];
/// Annotations that switch zone hints on and off, and their values, in any case of the first letter.
const TOPOLOGY_MODES: [&str; 2] = [
    "service.kubernetes.io/topology-mode",
    "service.kubernetes.io/topology-aware-hints",
];
const TOPOLOGY_VALUES: [&str; 4] = ["Auto", "auto", "Disabled", "disabled"];

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = unknown_annotations(subject);
    findings.extend(annotations_of_others(subject));
    findings.extend(contradicting_scheme(subject));
    findings.extend(topology_value(subject));
    findings.extend(invalid_values(subject));
    findings.extend(contradicting_values(subject));
    findings.extend(contradicting_field(subject));
    findings
}

fn field(name: &str) -> String {
    format!("metadata.annotations[{name}]")
}

/// Returns the command that removes an annotation.
fn removal_command(subject: &Subject<'_>, name: &str) -> String {
    format!("{} {name}-", kubectl::command("annotate", subject.service.0))
}

fn unknown_annotations(subject: &Subject<'_>) -> Vec<Finding> {
    let names = subject
        .service
        .pairs("/metadata/annotations")
        .map(|(name, _)| name);
    let is_unknown =
        |name: &&str| PREFIXES.iter().any(|prefix| name.starts_with(prefix)) && !KNOWN.contains(name);
    names
        .filter(is_unknown)
        .map(|name| {
            let similar = nearest_name(name, KNOWN);
            let message = format!(
                "Annotation {name} of Service {} has no effect: its name is unknown{}",
                subject.service.name,
                similar.map_or_else(String::new, |similar| format!(". The nearest is {similar}"))
            );
            let remedy = match similar {
                Some(similar) => format!(
                    "Use the name {similar}, and remove the other one: {}",
                    removal_command(subject, name)
                ),
                None => format!("Remove it: {}", removal_command(subject, name)),
            };
            subject.finding(CODE, Severity::Warning, field(name), message, remedy)
        })
        .collect()
}

/// Reports names that resemble an annotation of another implementation, and values that it does not accept.
fn annotations_of_others(subject: &Subject<'_>) -> Vec<Finding> {
    let annotations = subject.service.pairs("/metadata/annotations");
    let annotations = annotations.filter(|(name, _)| !PREFIXES.iter().any(|prefix| name.starts_with(prefix)));
    let finding = |(name, value): (&str, &str)| {
        if let Some(intended) = vendors::intended_name(name) {
            let message = format!(
                "Annotation {name} of Service {} has no effect: its name is unknown. The nearest is {intended}",
                subject.service.name
            );
            let remedy = format!(
                "Use the name {intended}, and remove the other one: {}",
                removal_command(subject, name)
            );
            return Some(subject.finding(CODE, Severity::Warning, field(name), message, remedy));
        }
        let accepted = vendors::accepted_values(name, value)?;
        let message = format!(
            "Annotation {name} of Service {} is {value:?}; expected {}",
            subject.service.name,
            accepted.join(" or ")
        );
        let remedy = format!(
            "{} {name}={} --overwrite",
            kubectl::command("annotate", subject.service.0),
            accepted.first()?
        );
        Some(subject.finding(CODE, Severity::Warning, field(name), message, remedy))
    };
    annotations.filter_map(finding).collect()
}

/// Reports an AWS load balancer that is internal by one annotation and not by the other.
fn contradicting_scheme(subject: &Subject<'_>) -> Option<Finding> {
    let [internal, scheme] = AWS_SCHEMES;
    let is_internal = subject.service.annotation(internal)? != "false";
    let is_public = subject.service.annotation(scheme)? == "internet-facing";
    let message = format!(
        "Annotations {internal} and {scheme} of Service {} contradict each other",
        subject.service.name
    );
    let remedy = format!("Remove the older one: {}", removal_command(subject, internal));
    (is_internal == is_public)
        .then(|| subject.finding(CODE, Severity::Warning, field(internal), message, remedy))
}

/// Reports values other than `Auto` and `Disabled`, which switch zone hints off.
fn topology_value(subject: &Subject<'_>) -> Option<Finding> {
    let mut annotations = TOPOLOGY_MODES.iter();
    let (name, value) = annotations.find_map(|name| Some((name, subject.service.annotation(name)?)))?;
    if TOPOLOGY_VALUES.contains(&value) {
        return None;
    }
    let message = format!(
        "Annotation {name} of Service {} is {value:?}, which is ignored: Auto or Disabled is expected",
        subject.service.name
    );
    let remedy = format!(
        "{} {name}=Auto --overwrite",
        kubectl::command("annotate", subject.service.0)
    );
    Some(subject.finding(CODE, Severity::Warning, field(name), message, remedy))
}

/// Reports values that the plan does not understand.
fn invalid_values(subject: &Subject<'_>) -> Vec<Finding> {
    let mut names = subject
        .service
        .pairs("/metadata/annotations")
        .map(|(name, _)| name);
    if !names.any(|name| PREFIXES.iter().any(|prefix| name.starts_with(prefix))) {
        return Vec::new();
    }
    let Some(plan) = plan_of(subject, "") else {
        return Vec::new();
    };
    let faults = plan.faults().filter_map(|(_, fault)| match fault {
        Fault::Annotation { name, value } => Some((*name, value.clone())),
        _ => None,
    });
    faults
        .map(|(name, value)| {
            let accepted = if name.ends_with("/scheduler") {
                "random, rr, lc or maglev"
            } else if name.ends_with("/port-ranges") {
                "at most 128 ranges such as 5060-5160/UDP,7000/TCP, or all"
            } else {
                "a number of seconds"
            };
            let message = format!(
                "Annotation {name} of Service {} is {value:?}, which is ignored: {accepted} is expected",
                subject.service.name
            );
            subject.finding(
                CODE,
                Severity::Warning,
                field(name),
                message,
                format!("Correct it, or remove it: {}", removal_command(subject, name)),
            )
        })
        .collect()
}

/// Reports annotations of the same meaning with different values.
fn contradicting_values(subject: &Subject<'_>) -> Vec<Finding> {
    let contradiction = |names: &&[&'static str]| {
        let mut values = names
            .iter()
            .filter_map(|name| Some((*name, subject.service.0.annotation(name)?.trim())));
        let (first, value) = values.next()?;
        let (second, other) = values.find(|(_, other)| !other.eq_ignore_ascii_case(value))?;
        let message = format!(
            "Annotations {first} and {second} of Service {} have the same meaning and different values: {value:?} and {other:?}",
            subject.service.name
        );
        let remedy = format!(
            "Remove the one that is wrong, for example: {}",
            removal_command(subject, second)
        );
        Some(subject.finding(CODE, Severity::Warning, field(second), message, remedy))
    };
    EQUIVALENT_ANNOTATIONS.iter().filter_map(contradiction).collect()
}

/// Reports that an annotation and `spec.loadBalancerIP` request different addresses.
fn contradicting_field(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let requested = Some(service.text("/spec/loadBalancerIP").trim()).filter(|text| !text.is_empty())?;
    let mut annotations = ADDRESSES
        .iter()
        .filter_map(|name| Some((*name, service.0.annotation(name)?)));
    let (name, value) =
        annotations.find(|(_, value)| value.split(',').all(|part| part.trim() != requested))?;
    // Implementations of other classes read neither of them, or only the field.
    let class = service.text("/spec/loadBalancerClass");
    let is_read = class.is_empty() || name.split('/').next() == class.split('/').next();
    let message = format!(
        "Annotation {name} of Service {} requests {value}, and spec.loadBalancerIP requests {requested}",
        service.name
    );
    let remedy = format!(
        "Remove the field, which is deprecated: {}",
        kubectl::remove(service.0, "/spec/loadBalancerIP")
    );
    is_read.then(|| subject.finding(CODE, Severity::Warning, field(name), message, remedy))
}

#[cfg(test)]
mod tests;
