//! PTL-0024.

use std::net::IpAddr;

use ipnet::IpNet;
use plan::{Fault, FrontendKind};

use crate::finding::{Code, Finding, Severity};
use crate::kubectl;
use crate::node_plan::plan_of;
use crate::rule::Rule;
use crate::subject::Subject;

pub const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("source_ranges.md"),
    explained_by: &[Code(21), Code(22)],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(24);
const FIELD: &str = "spec.loadBalancerSourceRanges";
const POINTER: &str = "/spec/loadBalancerSourceRanges";
/// Ranges of addresses that no client has (RFC 1122).
const WITHOUT_CLIENTS: [&str; 3] = ["0.0.0.0/8", "127.0.0.0/8", "255.255.255.255/32"];

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    let ranges: Vec<&str> = service
        .list(POINTER)
        .iter()
        .filter_map(|range| range.as_str())
        .collect();
    if service.kind() != "LoadBalancer" || ranges.is_empty() {
        return Vec::new();
    }
    let invalid = invalid(subject);
    if !invalid.is_empty() {
        return vec![unreadable(subject, &invalid, invalid.len() == ranges.len())];
    }
    without_clients(subject, &ranges)
        .or_else(|| other_family(subject, &ranges))
        .or_else(|| excluded_node(subject))
        .or_else(|| restricted(subject, &ranges))
        .into_iter()
        .collect()
}

/// Ranges that the plan does not understand.
fn invalid(subject: &Subject<'_>) -> Vec<String> {
    let Some(plan) = plan_of(subject, "") else {
        return Vec::new();
    };
    let faults = plan.faults().filter_map(|(_, fault)| match fault {
        Fault::SourceRange { value } => Some(value.clone()),
        _ => None,
    });
    faults.collect()
}

fn unreadable(subject: &Subject<'_>, invalid: &[String], is_all: bool) -> Finding {
    let (severity, effect) = if is_all {
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
    subject.finding(CODE, severity, FIELD, message, remedy)
}

/// `0.0.0.0/32` instead of `0.0.0.0/0`.
fn without_clients(subject: &Subject<'_>, ranges: &[&str]) -> Option<Finding> {
    let unusable: Vec<IpNet> = WITHOUT_CLIENTS
        .iter()
        .filter_map(|net| net.parse().ok())
        .collect();
    let is_unusable = |range: &&str| {
        let net: Option<IpNet> = range.trim().parse().ok();
        net.is_some_and(|net| unusable.iter().any(|unusable| unusable.contains(&net)))
    };
    if !ranges.iter().all(is_unusable) {
        return None;
    }
    let message = format!(
        "The source ranges {} of Service {} contain no address that a client can have",
        ranges.join(", "),
        subject.service.name
    );
    let remedy = format!(
        "Set the ranges of the clients. 0.0.0.0/0 admits all: {}",
        kubectl::replace(subject.service.0, POINTER, serde_json::json!(["0.0.0.0/0"]))
    );
    Some(subject.finding(CODE, Severity::Warning, FIELD, message, remedy))
}

/// Ranges of one family admit no client to an address of the other one.
fn other_family(subject: &Subject<'_>, ranges: &[&str]) -> Option<Finding> {
    let nets: Vec<IpNet> = ranges
        .iter()
        .filter_map(|range| range.trim().parse().ok())
        .collect();
    let addresses = subject.service.ingress_ips();
    let is_v4 = |net: &IpNet| net.addr().is_ipv4();
    let address = addresses
        .iter()
        .find(|address| nets.iter().all(|net| is_v4(net) != address.is_ipv4()))?;
    let message = format!(
        "The source ranges {} of Service {} have another IP family than the load balancer IP {address}, so no client is admitted",
        ranges.join(", "),
        subject.service.name
    );
    let remedy = format!(
        "Add ranges of the family of the address: {}",
        kubectl::command("edit", subject.service.0)
    );
    Some(subject.finding(CODE, Severity::Warning, FIELD, message, remedy))
}

/// The objects do not show the clients. The user learns of the ranges if he names the Service.
fn restricted(subject: &Subject<'_>, ranges: &[&str]) -> Option<Finding> {
    let admits_all = ranges
        .iter()
        .filter_map(|range| range.trim().parse::<IpNet>().ok())
        .any(|net| net.prefix_len() == 0);
    let message = format!(
        "The load balancer admits only clients in {}. Connections of others to Service {} are dropped",
        ranges.join(", "),
        subject.service.name
    );
    let remedy = format!(
        "Add the range of the client: {}",
        kubectl::add(subject.service.0, &format!("{POINTER}/-"), "CLIENT/32")
    );
    let finding = subject.finding(CODE, Severity::Info, FIELD, message, remedy);
    (subject.is_named && !admits_all).then_some(finding)
}

/// The user named a node with clients, and the plan of this node drops their packets: proxies apply the ranges to clients of the
/// cluster, too.
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
