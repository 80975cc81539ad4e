//! PTL-0035.

use api::field::Path;
use api::selector::LabelSelector;
use serde_json::Value;

use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::object::Object;
use crate::rule::Rule;
use crate::subject::{Subject, about};
use crate::views::Node;

pub const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("node_unusable.md"),
    explained_by: &[Code(2), Code(21)],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(35);
/// Label of nodes that get no connections from load balancers (upstream: `LabelNodeExcludeBalancers`).
const EXCLUDE_LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Condition that Portolan's assigner sets if no node may announce an address.
const ANNOUNCED_CONDITION: &str = "portolan.dev/AddressAnnounced";
/// Annotations with the pool of MetalLB that an address is of.
const POOL_ANNOTATIONS: [&str; 2] = [
    "metallb.io/ip-allocated-from-pool",
    "metallb.universe.tf/ip-allocated-from-pool",
];
/// Taint of nodes that the autoscaler is about to delete.
const DELETION_TAINT: &str = "ToBeDeletedByClusterAutoscaler";

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if !subject.has(Kind::Node) {
        return Vec::new();
    }
    let mut findings: Vec<Finding> = not_ready(subject).into_iter().collect();
    if subject.service.kind() == "LoadBalancer" {
        findings.extend(
            unannounced(subject)
                .or_else(|| unadvertised(subject))
                .or_else(|| excluded(subject))
                .or_else(|| named_node(subject)),
        );
    }
    findings
}

/// Pods that are not ready because the kubelet of their node does not report.
fn not_ready(subject: &Subject<'_>) -> Option<Finding> {
    let (pod, node) = subject.active().find_map(|pod| {
        let node = subject.world.node(pod.node())?;
        (!node.is_ready()).then_some((pod, node))
    })?;
    let severity = if subject.has_ready_endpoint() {
        Severity::Warning
    } else {
        Severity::Error
    };
    let condition = node.0.condition("Ready");
    let text = |field: &str| {
        condition
            .and_then(|condition| condition[field].as_str())
            .unwrap_or_default()
    };
    let message = format!(
        "Pod {} of Service {} is on Node {}, which is not ready ({} {})",
        pod.name,
        subject.service.name,
        node.name,
        text("reason"),
        text("message").trim_end_matches('.')
    );
    let remedy = format!(
        "Repair the kubelet or the network of the node, or delete the Node so that its Pods are replaced: {}",
        kubectl::command("describe", node.0)
    );
    Some(about(
        node.0,
        CODE,
        severity,
        "status.conditions",
        message,
        remedy,
    ))
}

/// A load balancer of which all usable nodes carry the exclusion label. With a local policy, only nodes with endpoints are usable.
fn excluded(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let is_local = service.text("/spec/externalTrafficPolicy") == "Local";
    let endpoints = subject.slices().iter().flat_map(|slice| slice.endpoints());
    let serving: Vec<&str> = endpoints
        .filter(|endpoint| endpoint.is_serving())
        .map(|endpoint| endpoint.node())
        .collect();
    let is_usable = |node: &Node<'_>| node.is_ready() && (!is_local || serving.contains(&node.name.as_str()));
    let usable: Vec<Node<'_>> = subject.world.nodes().filter(is_usable).collect();
    let node = usable.first()?;
    // Load balancers that run on the nodes themselves and have their addresses do not read the label.
    let serves = |node: &Node<'_>| node.ips().iter().any(|ip| service.ingress_ips().contains(ip));
    if usable
        .iter()
        .any(|node| node.label(EXCLUDE_LABEL).is_none() || serves(node))
    {
        return None;
    }
    let which = if is_local {
        "nodes with endpoints"
    } else {
        "ready nodes"
    };
    let message = format!(
        "All {} {which} have the label {EXCLUDE_LABEL}, so no node takes connections for load balancer {}",
        usable.len(),
        service.name
    );
    let remedy = format!("{} {EXCLUDE_LABEL}-", kubectl::command("label", node.0));
    let field = format!("metadata.labels[{EXCLUDE_LABEL}]");
    Some(about(node.0, CODE, Severity::Error, field, message, remedy))
}

/// The assigner reports that no node may announce the address.
fn unannounced(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let condition = service.condition(ANNOUNCED_CONDITION)?;
    if condition["status"] != "False" {
        return None;
    }
    let reason = condition["message"]
        .as_str()
        .unwrap_or("no node matches the selectors");
    let message = format!(
        "No node announces the load balancer IP of Service {}: {}",
        service.name,
        reason.trim_end_matches('.')
    );
    let remedy = format!(
        "Change the node selectors of the pool or the labels of the nodes: {}",
        kubectl::command("describe", service.0)
    );
    let field = format!("status.conditions[{ANNOUNCED_CONDITION}]");
    Some(subject.finding(CODE, Severity::Error, field, message, remedy))
}

/// The address is of a pool of MetalLB that no advertisement selects.
fn unadvertised(subject: &Subject<'_>) -> Option<Finding> {
    let world = subject.world;
    let service = subject.service;
    let mut annotations = POOL_ANNOTATIONS
        .iter()
        .filter_map(|name| service.annotation(name));
    let name = annotations.next()?;
    let kinds = [Kind::IpAddressPool, Kind::L2Advertisement, Kind::BgpAdvertisement];
    if !kinds.into_iter().all(|kind| world.has(kind)) {
        return None;
    }
    let pool = world.all(Kind::IpAddressPool).find(|pool| pool.name == name)?;
    let selects = |advertisement: &Object| {
        let names = advertisement.list("/spec/ipAddressPools");
        let selectors = advertisement.list("/spec/ipAddressPoolSelectors");
        let is_selected = |selector: &Value| {
            let selector = LabelSelector::from_object(&Path::new("selector"), selector);
            selector.map_or(true, |selector| selector.matches(|key| pool.label(key)))
        };
        let is_all = names.is_empty() && selectors.is_empty();
        is_all || names.iter().any(|listed| *listed == *name) || selectors.iter().any(is_selected)
    };
    let mut advertisements = world
        .all(Kind::L2Advertisement)
        .chain(world.all(Kind::BgpAdvertisement));
    if advertisements.any(selects) {
        return None;
    }
    let message = format!(
        "No L2Advertisement or BGPAdvertisement selects the pool {name}, so no node announces the load balancer IP of Service {}",
        service.name
    );
    let remedy = format!(
        "Create an L2Advertisement with ipAddressPools: [{name}] in namespace {}",
        pool.namespace
    );
    Some(about(
        pool,
        CODE,
        Severity::Error,
        "metadata.name",
        message,
        remedy,
    ))
}

/// Load balancers leave out the node that the user named.
fn named_node(subject: &Subject<'_>) -> Option<Finding> {
    let node = subject.world.node(subject.node?)?;
    let mut taints = node.list("/spec/taints").iter();
    let describe = || kubectl::command("describe", node.0);
    let (reason, remedy) = if node.label(EXCLUDE_LABEL).is_some() {
        let remedy = format!("{} {EXCLUDE_LABEL}-", kubectl::command("label", node.0));
        (format!("has the label {EXCLUDE_LABEL}"), remedy)
    } else if taints.any(|taint| taint["key"] == DELETION_TAINT) {
        let remedy = format!(
            "Use another node. The autoscaler deletes this one: {}",
            kubectl::command("describe", node.0)
        );
        (format!("has the taint {DELETION_TAINT}"), remedy)
    } else if !node.is_ready() {
        let remedy = format!("Repair the kubelet or the network of the node: {}", describe());
        ("is not ready".to_owned(), remedy)
    } else if node.flag("/spec/unschedulable") {
        let remedy = format!(
            "End the maintenance of the node: {}",
            kubectl::command("uncordon", node.0).replace("uncordon node", "uncordon")
        );
        ("is cordoned".to_owned(), remedy)
    } else {
        return None;
    };
    let message = format!(
        "Node {} {reason}, so load balancers do not send connections for Service {} to it",
        node.name, subject.service.name
    );
    Some(about(node.0, CODE, Severity::Info, "metadata", message, remedy))
}
