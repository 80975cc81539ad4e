//! PTL-0033: the IP family of the Service is not that of Pods or clients.

use std::net::IpAddr;

use super::{selector_matches_other_app, service_terminating};
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::{Subject, finding_about};
use crate::views::Pod;
use crate::world::COMPARED_PODS_MAX;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("address_family.md"),
    explained_by: &[selector_matches_other_app::CODE, service_terminating::CODE],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(33);
const FIELD: &str = "spec.ipFamilies";

/// IP family by its name in the API.
#[derive(Clone, Copy, PartialEq)]
struct Family {
    is_v6: bool,
}

impl Family {
    fn name(self) -> &'static str {
        if self.is_v6 { "IPv6" } else { "IPv4" }
    }

    fn other(self) -> Self {
        Self { is_v6: !self.is_v6 }
    }

    fn has(self, address: &IpAddr) -> bool {
        address.is_ipv6() == self.is_v6
    }
}

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    let families = families(subject);
    if service.is_external_name() || families.is_empty() {
        return Vec::new();
    }
    if let Some(finding) = other_cluster_ip(subject, &families) {
        return vec![finding];
    }
    if !subject.has(Kind::Pod) {
        return empty_family(subject, &families).into_iter().collect();
    }
    if let Some(finding) = backends(subject, &families).or_else(|| node_addresses(subject, &families)) {
        return vec![finding];
    }
    let findings = clients(subject, &families);
    if findings.is_empty() {
        return other_pods(subject, &families).into_iter().collect();
    }
    findings
}

/// Reports that clients use node ports at the addresses of nodes, and no node has one of a family of the Service.
fn node_addresses(subject: &Subject<'_>, families: &[Family]) -> Option<Finding> {
    let service = subject.service;
    let addresses: Vec<IpAddr> = subject.world.nodes().flat_map(|node| node.ips()).collect();
    let has_family = |address: &IpAddr| families.iter().any(|family| family.has(address));
    let is_affected =
        service.kind() == "NodePort" && !addresses.is_empty() && !addresses.iter().any(has_family);
    let family = *families.first()?;
    let message = format!(
        "Service {} has the family {}, and no node has an {} address: no client reaches its node ports",
        service.name,
        family.name(),
        family.name()
    );
    let remedy = format!(
        "Create the Service again with ipFamilies: [{}], or give the nodes {} addresses",
        family.other().name(),
        family.name()
    );
    is_affected.then(|| subject.finding(CODE, Severity::Warning, FIELD, message, remedy))
}

/// Pods without an address of the only family of the Service cannot be its clients. IPv6 alone is seldom meant to
/// exclude them.
fn other_pods(subject: &Subject<'_>, families: &[Family]) -> Option<Finding> {
    let [family] = families else { return None };
    if !family.is_v6 {
        return None;
    }
    let pods = subject.world.all(Kind::Pod).take(COMPARED_PODS_MAX).map(Pod);
    let mut lacking = pods.filter(|pod| {
        let addresses = pod.ips();
        let is_client = pod.is_active() && !pod.0.flag("/spec/hostNetwork") && !addresses.is_empty();
        is_client && !addresses.iter().any(|address| family.has(address))
    });
    let pod = lacking.next()?;
    let message = format!(
        "Service {} has only {}, and Pods such as {}/{} have no {} address, so they cannot be clients",
        subject.service.name,
        family.name(),
        pod.namespace,
        pod.name,
        family.name()
    );
    let remedy = format!(
        "Add the family {} to the Service: {}",
        family.other().name(),
        kubectl::merge(
            subject.service.0,
            &serde_json::json!({"spec": {"ipFamilyPolicy": "RequireDualStack"}})
        )
    );
    Some(subject.finding(CODE, Severity::Warning, FIELD, message, remedy))
}

/// Reports that the families of the cluster IPs differ from those of the Service.
fn other_cluster_ip(subject: &Subject<'_>, families: &[Family]) -> Option<Finding> {
    let service = subject.service;
    let addresses = service.cluster_ips().into_iter();
    let mut foreign = addresses.filter(|address| !families.iter().any(|family| family.has(address)));
    let address = foreign.next()?;
    let names: Vec<&str> = families.iter().map(|family| family.name()).collect();
    let message = format!(
        "Service {} has the families {}, and the cluster IP {address} of the other family",
        service.name,
        names.join(", ")
    );
    let remedy = format!(
        "Create the Service again, without cluster IP: {}",
        kubectl::command("delete", service.0)
    );
    Some(subject.finding(CODE, Severity::Error, FIELD, message, remedy))
}

/// Reports that the slices of a Service with two families have endpoints of one family only.
fn empty_family(subject: &Subject<'_>, families: &[Family]) -> Option<Finding> {
    let service = subject.service;
    if service.is_headless() || !service.has_selector() || !subject.has(Kind::EndpointSlice) {
        return None;
    }
    let is_empty = |family: &&Family| !has_endpoints(subject, **family);
    let family = families.iter().find(is_empty)?;
    let message = format!(
        "Service {} has the family {}, and its EndpointSlices have endpoints of {} only: connections to its {} cluster IP are refused",
        service.name,
        family.name(),
        family.other().name(),
        family.name()
    );
    let remedy = format!("Give the nodes and Pods {} addresses", family.name());
    has_endpoints(subject, family.other())
        .then(|| subject.finding(CODE, Severity::Warning, FIELD, message, remedy))
}

/// Returns true if a slice has a usable endpoint of the family.
fn has_endpoints(subject: &Subject<'_>, family: Family) -> bool {
    let slices = subject.slices().iter();
    let mut family_slices = slices.filter(|slice| slice.address_type() == family.name());
    family_slices.any(|slice| slice.endpoints().any(|endpoint| endpoint.is_serving()))
}

fn families(subject: &Subject<'_>) -> Vec<Family> {
    let names = subject
        .service
        .list("/spec/ipFamilies")
        .iter()
        .filter_map(|name| name.as_str());
    let named: Vec<Family> = names
        .map(|name| Family {
            is_v6: name == "IPv6",
        })
        .collect();
    if !named.is_empty() {
        return named;
    }
    let addresses = subject.service.cluster_ips().into_iter();
    addresses
        .map(|address| Family {
            is_v6: address.is_ipv6(),
        })
        .collect()
}

/// Reports a family of the Service in which no Pod has an address.
fn backends(subject: &Subject<'_>, families: &[Family]) -> Option<Finding> {
    let service = subject.service;
    let pods: Vec<(Pod<'_>, Vec<IpAddr>)> = subject
        .active()
        .map(|pod| (pod, pod.ips()))
        .filter(|(_, addresses)| !addresses.is_empty())
        .collect();
    let (pod, addresses) = pods.first()?;
    let lacks = |family: &&Family| {
        pods.iter()
            .all(|(_, addresses)| !addresses.iter().any(|address| family.has(address)))
    };
    let family = families.iter().find(lacks)?;
    let is_only = families.iter().all(|other| lacks(&other));
    // The second family of a headless Service is only a preference.
    let is_optional = service.is_headless() && service.text("/spec/ipFamilyPolicy") != "RequireDualStack";
    let are_listed = subject.has(Kind::EndpointSlice) || !pod.0.list("/status/podIPs").is_empty();
    if has_endpoints(subject, *family) || !is_only && (is_optional || !are_listed) {
        return None;
    }
    let severity = if is_only {
        Severity::Error
    } else {
        Severity::Warning
    };
    let message = format!(
        "Service {} has the family {}, but no selected Pod has an {} address: connections to its {} cluster IP are refused",
        service.name,
        family.name(),
        family.name(),
        family.name()
    );
    let remedy = if is_only {
        format!(
            "Create the Service again with ipFamilies: [{}], or give the nodes and Pods {} addresses",
            family.other().name(),
            family.name()
        )
    } else {
        format!(
            "Give the nodes and Pods {} addresses, or remove the second family: {}",
            family.name(),
            kubectl::merge(
                service.0,
                &serde_json::json!({"spec": {"ipFamilyPolicy": "SingleStack", "ipFamilies": [families[0].name()],
                    "clusterIPs": [service.text("/spec/clusterIP")]}})
            )
        )
    };
    let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    let finding = subject.finding(CODE, severity, FIELD, message, remedy);
    Some(finding.with_evidence(format!(
        "Pod {} has the address {}",
        pod.name,
        addresses.join(", ")
    )))
}

/// Reports Pods that name the Service and have no address of its families.
fn clients(subject: &Subject<'_>, families: &[Family]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for (pod, reference) in subject.world.references_to(subject.service) {
        let addresses = pod.ips();
        let has_family = addresses
            .iter()
            .any(|address| families.iter().any(|family| family.has(address)));
        let [family] = families else { continue };
        if has_family || addresses.is_empty() || !pod.is_active() {
            continue;
        }
        let message = format!(
            "Service {} has only {}, and the Pod, which uses {}, has only {}",
            subject.service.name,
            family.name(),
            reference.text,
            family.other().name()
        );
        let remedy = format!(
            "Add the family {} to the Service: {}",
            family.other().name(),
            kubectl::merge(
                subject.service.0,
                &serde_json::json!({"spec": {"ipFamilyPolicy": "RequireDualStack"}})
            )
        );
        findings.push(finding_about(
            pod.0,
            CODE,
            Severity::Warning,
            reference.field.clone(),
            message,
            remedy,
        ));
    }
    findings
}
