//! PTL-0030: external IPs are ignored.

use std::net::IpAddr;

use super::service_terminating;
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::object::Object;
use crate::rule::Rule;
use crate::subject::Subject;
use crate::views::Node;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("external_ips_ignored.md"),
    explained_by: &[service_terminating::CODE],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(30);
const FIELD: &str = "spec.externalIPs";
/// Admission plugin of API servers that refuses external IPs.
const REFUSING_PLUGIN: &str = "DenyServiceExternalIPs";
const POINTER: &str = "/spec/externalIPs";

/// Feature gate of proxies that turns external IPs off.
const GATE: &str = "AllowServiceExternalIPs";
/// Minor version of Kubernetes 1 whose proxies ignore external IPs by default.
const REMOVED_MINOR: u32 = 40;

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
    if service.is_external_name() {
        let message = format!(
            "Service {} is an alias (ExternalName), so proxies ignore its external IPs, such as {first}",
            service.name
        );
        let remedy = kubectl::remove(service.0, POINTER);
        return vec![subject.finding(CODE, Severity::Warning, FIELD, message, remedy)];
    }
    if let Some(finding) = unusable_addresses(subject, &external) {
        return vec![finding];
    }
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
    match missing_family(subject, external.len()) {
        Some(finding) => vec![finding],
        None => refused_addresses(subject, first).into_iter().collect(),
    }
}

/// Reports the external IPs of a family that the cluster IPs do not have. `external_count` is the number of all
/// external IPs.
fn missing_family(subject: &Subject<'_>, external_count: usize) -> Option<Finding> {
    let service = subject.service;
    let cluster_ips = service.cluster_ips();
    if cluster_ips.is_empty() {
        return None;
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
        return None;
    }
    let severity = if ignored.len() == external_count {
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
    Some(subject.finding(CODE, severity, FIELD, message, remedy))
}

/// Reports external IPs that are not an address of a host.
fn unusable_addresses(subject: &Subject<'_>, external: &[&str]) -> Option<Finding> {
    let is_usable = |text: &&&str| {
        text.parse().is_ok_and(|address: IpAddr| {
            let is_link_local = match address {
                IpAddr::V4(address) => address.is_link_local(),
                IpAddr::V6(address) => address.is_unicast_link_local(),
            };
            !(address.is_loopback() || address.is_unspecified() || address.is_multicast() || is_link_local)
        })
    };
    let unusable: Vec<&str> = external.iter().filter(|text| !is_usable(text)).copied().collect();
    let message = format!(
        "Service {} has the external IP {}, which is not the address of a host: proxies ignore it",
        subject.service.name,
        unusable.join(", ")
    );
    let severity = if unusable.len() == external.len() {
        Severity::Error
    } else {
        Severity::Warning
    };
    let remedy = format!(
        "Write addresses that are routed to the nodes: {}",
        kubectl::command("edit", subject.service.0)
    );
    (!unusable.is_empty()).then(|| subject.finding(CODE, severity, FIELD, message, remedy))
}

/// Reports that the API server refuses external IPs, or the proxies ignore them.
fn refused_addresses(subject: &Subject<'_>, address: &str) -> Option<Finding> {
    let service = subject.service;
    let minor = subject.world.nodes().filter_map(minor_version).max();
    let state = if let Some(source) = object_with_disabled_gate(subject) {
        format!(
            "{source} turns external IPs off, so proxies ignore the external IP {address} of Service {}",
            service.name
        )
    } else if let Some(source) = object_with_admission_plugin(subject) {
        format!(
            "{source} refuses new external IPs, so Service {} cannot be created again with {address}",
            service.name
        )
    } else if let Some(minor) = minor.filter(|minor| *minor >= REMOVED_MINOR) {
        format!(
            "The nodes run Kubernetes 1.{minor}, whose proxies ignore external IPs by default, such as {address} of Service {}",
            service.name
        )
    } else {
        return None;
    };
    let remedy = format!(
        "Use a load balancer with this address: {}",
        kubectl::replace(service.0, "/spec/type", "LoadBalancer")
    );
    Some(subject.finding(CODE, Severity::Warning, FIELD, state, remedy))
}

/// Returns the minor version of the kubelet of a node, such as 34 of `v1.34.1`.
fn minor_version(node: Node<'_>) -> Option<u32> {
    let version = node.0.text("/status/nodeInfo/kubeletVersion");
    version.strip_prefix("v1.")?.split('.').next()?.parse().ok()
}

/// Returns the object that has the admission plugin against external IPs: an API server, or an Event about the Service.
fn object_with_admission_plugin(subject: &Subject<'_>) -> Option<String> {
    let mut pods = subject.world.in_namespace(Kind::Pod, "kube-system");
    let is_server = |pod: &&Object| {
        pod.tree()["spec"]["containers"]
            .to_string()
            .contains(REFUSING_PLUGIN)
    };
    let server = pods.find(is_server);
    let server_text = server.map(|pod| format!("The admission plugin {REFUSING_PLUGIN} of Pod {}", pod.name));
    server_text.or_else(|| {
        let mut events = subject.world.events_about(subject.service.0);
        let event = events.find(|event| event.message().contains(REFUSING_PLUGIN))?;
        Some(format!(
            "The API server ({})",
            event.message().trim_end_matches('.')
        ))
    })
}

/// Returns the object that turns the feature gate of proxies off.
fn object_with_disabled_gate(subject: &Subject<'_>) -> Option<String> {
    let world = subject.world;
    let is_off = |text: &str| {
        let text: String = text
            .chars()
            .filter(|character| !character.is_whitespace() && *character != '"')
            .collect();
        [":false", "=false"]
            .iter()
            .any(|off| text.contains(&format!("{GATE}{off}")))
    };
    let mut pods = world.in_namespace(Kind::Pod, "kube-system");
    let pod_with_gate = pods.find(|pod| is_off(&pod.tree()["spec"]["containers"].to_string()));
    let mut maps = world.in_namespace(Kind::ConfigMap, "kube-system");
    let source =
        pod_with_gate.or_else(|| maps.find(|map| map.pairs("/data").any(|(_, text)| is_off(text))))?;
    Some(format!(
        "The feature gate {GATE} of {} {}",
        source.kind.name(),
        source.name
    ))
}
