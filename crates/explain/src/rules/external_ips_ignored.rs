//! PTL-0030.

use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::Subject;

pub const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("external_ips_ignored.md"),
    explained_by: &[],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(30);
const FIELD: &str = "spec.externalIPs";
/// Admission plugin of API servers that refuses external IPs.
const REFUSING_PLUGIN: &str = "DenyServiceExternalIPs";
const POINTER: &str = "/spec/externalIPs";

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    let external: Vec<&str> = service
        .list(POINTER)
        .iter()
        .filter_map(|address| address.as_str())
        .collect();
    let Some(first) = external.first() else {
        return Vec::new();
    };
    if service.is_headless() {
        let message = format!(
            "Service {} is headless, so proxies ignore its external IPs, such as {first}",
            service.name
        );
        let remedy = format!(
            "Create a second Service with a cluster IP and the external IPs, and remove them here: {}",
            kubectl::remove(service.0, POINTER)
        );
        return vec![subject.finding(CODE, Severity::Warning, FIELD, message, remedy)];
    }
    let cluster_ips = service.cluster_ips();
    if cluster_ips.is_empty() {
        return refused(subject, first).into_iter().collect();
    }
    let addresses = service.external_ips().into_iter();
    let ignored: Vec<String> = addresses
        .filter(|address| {
            cluster_ips
                .iter()
                .all(|cluster_ip| cluster_ip.is_ipv4() != address.is_ipv4())
        })
        .map(|address| address.to_string())
        .collect();
    if ignored.is_empty() {
        return refused(subject, first).into_iter().collect();
    }
    let severity = if ignored.len() == external.len() {
        Severity::Error
    } else {
        Severity::Warning
    };
    let (family, missing) = if cluster_ips.iter().any(|cluster_ip| cluster_ip.is_ipv4()) {
        ("IPv4", "IPv6")
    } else {
        ("IPv6", "IPv4")
    };
    let message = format!(
        "Service {} has only {family}, so proxies ignore its external IP {}",
        service.name,
        ignored.join(", ")
    );
    let remedy = format!(
        "Add the family {missing}, if the cluster has it: {}",
        kubectl::merge(
            service.0,
            &serde_json::json!({"spec": {"ipFamilyPolicy": "PreferDualStack"}})
        )
    );
    vec![subject.finding(CODE, severity, FIELD, message, remedy)]
}

/// The API server refuses external IPs. The user learns that they are deprecated if he names the Service.
fn refused(subject: &Subject<'_>, address: &str) -> Option<Finding> {
    let service = subject.service;
    let mut pods = subject.world.in_namespace(Kind::Pod, "kube-system");
    let server = pods.find(|pod| {
        pod.tree()["spec"]["containers"]
            .to_string()
            .contains(REFUSING_PLUGIN)
    });
    let (severity, state) = match server {
        Some(pod) => (
            Severity::Warning,
            format!(
                "The admission plugin {REFUSING_PLUGIN} of Pod {} refuses new external IPs, so Service {} cannot be created again with {address}",
                pod.name, service.name
            ),
        ),
        None if subject.is_named => (
            Severity::Info,
            format!(
                "Service {} has the external IP {address}. External IPs are deprecated, and later API servers refuse them",
                service.name
            ),
        ),
        None => return None,
    };
    let remedy = format!(
        "Use a load balancer with this address: {}",
        kubectl::replace(service.0, "/spec/type", "LoadBalancer")
    );
    Some(subject.finding(CODE, severity, FIELD, state, remedy))
}
