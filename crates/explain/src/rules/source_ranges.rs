//! PTL-0024: the source ranges exclude clients.

use std::net::IpAddr;

use api::ip::parse_legacy_cidr;
use ipnet::IpNet;
use plan::FrontendKind;

use super::{load_balancer_pending, service_terminating};
use crate::facts::service_plan::plan_of;
use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::Subject;
use crate::views::{Pod, Service};

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("source_ranges.md"),
    explained_by: &[service_terminating::CODE, load_balancer_pending::CODE],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(24);
const FIELD: &str = "spec.loadBalancerSourceRanges";
const POINTER: &str = "/spec/loadBalancerSourceRanges";
/// Ranges of addresses that no client has (RFC 1122, RFC 4291).
const WITHOUT_CLIENTS: [&str; 6] = [
    "0.0.0.0/8",
    "127.0.0.0/8",
    "224.0.0.0/4",
    "255.255.255.255/32",
    "::/127",
    "ff00::/8",
];

/// Annotations with ranges (API-47) that implementations of load balancers read.
const ANNOTATIONS: [&str; 2] = [
    "service.beta.kubernetes.io/load-balancer-source-ranges",
    "service.beta.kubernetes.io/azure-allowed-ip-ranges",
];

/// Ranges of clients.
struct Ranges<'w> {
    field: String,
    texts: Vec<&'w str>,
}

impl Ranges<'_> {
    fn nets(&self) -> Vec<IpNet> {
        let nets = self.texts.iter().filter_map(|text| text.trim().parse().ok());
        nets.collect()
    }
}

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    let Some(ranges) = ranges(service).filter(|_| service.kind() == "LoadBalancer") else {
        return Vec::new();
    };
    let invalid = invalid_ranges(&ranges);
    if !invalid.is_empty() {
        let is_all = invalid.len() == ranges.texts.len();
        return vec![unreadable_ranges(subject, &ranges, &invalid, is_all)];
    }
    range_without_clients(subject, &ranges)
        .or_else(|| range_of_other_family(subject, &ranges))
        .or_else(|| excluded_node(subject))
        .or_else(|| excluded_pod(subject, &ranges))
        .into_iter()
        .collect()
}

/// Returns the ranges of the Service, or of the first annotation that has some.
fn ranges(service: Service<'_>) -> Option<Ranges<'_>> {
    let spec_ranges = Ranges {
        field: FIELD.to_owned(),
        texts: service
            .0
            .list(POINTER)
            .iter()
            .filter_map(|range| range.as_str())
            .collect(),
    };
    let annotation_ranges = ANNOTATIONS.iter().filter_map(|name| {
        let text = service
            .0
            .annotation(name)
            .filter(|text| !text.trim().is_empty())?;
        Some(Ranges {
            field: format!("metadata.annotations[{name}]"),
            texts: text.split(',').collect(),
        })
    });
    [spec_ranges]
        .into_iter()
        .chain(annotation_ranges)
        .find(|ranges| !ranges.texts.is_empty())
}

/// Returns the ranges that are not a CIDR (VAL-39, VAL-40). The API server accepts no others, but older objects can
/// have them.
fn invalid_ranges<'w>(ranges: &Ranges<'w>) -> Vec<&'w str> {
    let texts = ranges.texts.iter().copied();
    texts
        .filter(|text| parse_legacy_cidr(text.trim()).is_none())
        .collect()
}

fn unreadable_ranges(subject: &Subject<'_>, ranges: &Ranges<'_>, invalid: &[&str], is_all: bool) -> Finding {
    let (severity, effect) = if ranges.field != FIELD {
        (Severity::Error, "the controller of load balancers refuses it")
    } else if is_all {
        (Severity::Error, "no client is admitted")
    } else {
        (Severity::Warning, "clients in it are not admitted")
    };
    let message = format!(
        "The source range {:?} of Service {} is not a CIDR, so {effect}",
        invalid.join(", "),
        subject.service.name
    );
    let remedy = format!(
        "Write addresses with a prefix length, such as 203.0.113.7/32: {}",
        kubectl::command("edit", subject.service.0)
    );
    subject.finding(CODE, severity, ranges.field.clone(), message, remedy)
}

/// Reports `0.0.0.0/32` instead of `0.0.0.0/0`.
fn range_without_clients(subject: &Subject<'_>, ranges: &Ranges<'_>) -> Option<Finding> {
    let unusable: Vec<IpNet> = WITHOUT_CLIENTS
        .iter()
        .filter_map(|net| net.parse().ok())
        .collect();
    let is_unusable = |range: &&str| {
        let net: Option<IpNet> = range.trim().parse().ok();
        net.is_some_and(|net| unusable.iter().any(|unusable| unusable.contains(&net)))
    };
    if !ranges.texts.iter().all(is_unusable) {
        return None;
    }
    let message = format!(
        "The source ranges {} of Service {} contain no address that a client can have",
        ranges.texts.join(", "),
        subject.service.name
    );
    let remedy = format!(
        "Set the ranges of the clients. 0.0.0.0/0 admits all: {}",
        kubectl::replace(subject.service.0, POINTER, serde_json::json!(["0.0.0.0/0"]))
    );
    Some(subject.finding(CODE, Severity::Warning, ranges.field.clone(), message, remedy))
}

/// Ranges of one family admit no client to an address of the other one.
fn range_of_other_family(subject: &Subject<'_>, ranges: &Ranges<'_>) -> Option<Finding> {
    let nets = ranges.nets();
    let addresses = subject.service.ingress_ips();
    let is_v4 = |net: &IpNet| net.addr().is_ipv4();
    let address = addresses
        .iter()
        .find(|address| nets.iter().all(|net| is_v4(net) != address.is_ipv4()))?;
    let message = format!(
        "The source ranges {} of Service {} have another IP family than the load balancer IP {address}, so no client is admitted",
        ranges.texts.join(", "),
        subject.service.name
    );
    let remedy = format!(
        "Add ranges of the family of the address: {}",
        kubectl::command("edit", subject.service.0)
    );
    Some(subject.finding(CODE, Severity::Warning, ranges.field.clone(), message, remedy))
}

/// Reports that a Pod uses the load balancer IP, and the ranges exclude its addresses.
fn excluded_pod(subject: &Subject<'_>, ranges: &Ranges<'_>) -> Option<Finding> {
    let addresses = subject.service.ingress_ips();
    let nets = ranges.nets();
    let is_excluded = |pod: Pod<'_>, address: IpAddr| {
        let mut own = pod.ips();
        own.retain(|own| own.is_ipv4() == address.is_ipv4());
        !own.is_empty() && !own.iter().any(|own| nets.iter().any(|net| net.contains(own)))
    };
    let mut references = subject.world.references_to(subject.service);
    let (pod, reference) = references.find(|(pod, reference)| {
        let address = reference.address.filter(|address| addresses.contains(address));
        pod.is_active() && address.is_some_and(|address| is_excluded(*pod, address))
    })?;
    let message = format!(
        "The source ranges {} of Service {} exclude Pod {}/{}, which uses {}: its packets to the load balancer IP are dropped",
        ranges.texts.join(", "),
        subject.service.name,
        pod.namespace,
        pod.name,
        reference.text
    );
    let remedy = format!(
        "Let the Pod use {}.{}.svc, which has no source ranges",
        subject.service.name, subject.service.namespace
    );
    Some(subject.finding(CODE, Severity::Warning, ranges.field.clone(), message, remedy))
}

/// Reports that the user named a node with clients, and the plan of this node drops their packets. Proxies apply the
/// ranges to clients of the cluster, too.
fn excluded_node(subject: &Subject<'_>) -> Option<Finding> {
    let node = subject.world.node(subject.node?)?;
    let plan = plan_of(subject, &node.name)?;
    let frontends = plan.ports().flat_map(|port| &port.frontends);
    let frontend = frontends
        .filter(|frontend| frontend.kind == FrontendKind::LoadBalancerIp)
        .find(|frontend| !frontend.source_ranges.is_empty())?;
    let address = frontend.address?;
    let pods: Vec<IpNet> = node
        .list("/spec/podCIDRs")
        .iter()
        .filter_map(|range| range.as_str()?.parse().ok())
        .filter(|range: &IpNet| range.addr().is_ipv4() == address.is_ipv4())
        .collect();
    let is_admitted = |pods: &IpNet| {
        frontend
            .source_ranges
            .iter()
            .any(|range| range.contains(pods) || pods.contains(range))
    };
    let excluded = pods.iter().find(|pods| !is_admitted(pods))?;
    let message = format!(
        "The source ranges of Service {} exclude {excluded}, the addresses of Pods on node {}: their packets to {address} are dropped",
        service_name(subject),
        node.name
    );
    let remedy = format!(
        "Let Pods use the cluster IP, or admit them: {}",
        kubectl::add(subject.service.0, &format!("{POINTER}/-"), excluded.to_string())
    );
    let family = |address: IpAddr| if address.is_ipv4() { "IPv4" } else { "IPv6" };
    let finding = subject.finding(CODE, Severity::Warning, FIELD, message, remedy);
    Some(finding.with_evidence(format!(
        "The plan of node {} has {} source ranges for {}",
        node.name,
        frontend.source_ranges.len(),
        family(address)
    )))
}

fn service_name<'w>(subject: &Subject<'w>) -> &'w str {
    &subject.service.0.name
}
