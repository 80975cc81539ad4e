//! PTL-0035: a node of the Service is not ready or excluded.

use api::field::Path;
use api::selector::LabelSelector;
use serde_json::Value;

use super::{selector_matches_no_pod, service_terminating};
use crate::facts::service_plan::nodes_with_endpoints;
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::object::Object;
use crate::rule::Rule;
use crate::subject::{Subject, finding_about};
use crate::views::Node;
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("node_unusable.md"),
    explained_by: &[selector_matches_no_pod::CODE, service_terminating::CODE],
    service: Some(check),
    cluster: Some(check_cluster),
};

pub(super) const CODE: Code = Code(35);
/// Label of nodes that receive no connections from load balancers (upstream: `LabelNodeExcludeBalancers`).
const EXCLUDE_LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Label of nodes of the control plane.
const CONTROL_PLANE_LABEL: &str = "node-role.kubernetes.io/control-plane";

/// Condition that Portolan's assigner sets if no node may announce an address.
const ANNOUNCED_CONDITION: &str = "portolan.dev/AddressAnnounced";
/// Annotations with the pool of MetalLB that an address is of.
const POOL_ANNOTATIONS: [&str; 2] = [
    "metallb.io/ip-allocated-from-pool",
    "metallb.universe.tf/ip-allocated-from-pool",
];
/// Condition of nodes whose Pods have no routes, although the kubelet is ready.
const NETWORK_CONDITION: &str = "NetworkUnavailable";
/// Taint of nodes that the autoscaler is about to delete.
const DELETION_TAINT: &str = "ToBeDeletedByClusterAutoscaler";

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if !subject.has(Kind::Node) {
        return Vec::new();
    }
    let on_lost_node = not_ready(subject)
        .or_else(|| absent_node(subject))
        .or_else(|| on_node_without_network(subject));
    let mut findings: Vec<Finding> = on_lost_node.into_iter().collect();
    if subject.service.kind() == "LoadBalancer" {
        findings.extend(
            address_unannounced(subject)
                .or_else(|| pool_unadvertised(subject))
                .or_else(|| nodes_unselected(subject))
                .or_else(|| nodes_excluded(subject))
                .or_else(|| excluded_endpoint(subject))
                .or_else(|| named_node(subject)),
        );
    }
    if findings.is_empty() {
        findings.extend(named_not_ready(subject));
    }
    findings
}

/// Reports nodes that are not ready or have no network, and whose Pods belong to no Service.
fn check_cluster(world: &World) -> Vec<Finding> {
    let unready = world.nodes().filter(|node| !node.is_ready());
    let without_network = world.nodes().filter(lacks_network).map(network_finding);
    let finding = |node: Node<'_>| {
        let message = format!(
            "Node {} is not ready ({}): load balancers leave it out, and its Pods are not endpoints",
            node.name,
            state(node, "Ready")
        );
        finding_about(
            node.0,
            CODE,
            Severity::Warning,
            "status.conditions",
            message,
            repair(node),
        )
    };
    unready.map(finding).chain(without_network).collect()
}

/// Returns true if the network plugin or the route controller reports that the Pods of a ready node have no routes.
fn lacks_network(node: &Node<'_>) -> bool {
    node.is_ready() && node.0.has_condition(NETWORK_CONDITION, "True")
}

fn network_finding(node: Node<'_>) -> Finding {
    let message = format!(
        "The network of Node {} is not available ({}): other nodes do not reach its Pods",
        node.name,
        state(node, NETWORK_CONDITION)
    );
    let remedy = format!(
        "Read the log of the network plugin, or of the controller that creates the routes of nodes: {}",
        kubectl::command("describe", node.0)
    );
    finding_about(
        node.0,
        CODE,
        Severity::Warning,
        "status.conditions",
        message,
        remedy,
    )
}

/// Reports that a Pod of the Service is on a node without network.
fn on_node_without_network(subject: &Subject<'_>) -> Option<Finding> {
    // Pods in the network of their node need no routes.
    let pods = subject.active().filter(|pod| !pod.is_on_host_network());
    let mut nodes = pods.filter_map(|pod| subject.world.node(pod.node()));
    nodes.find(lacks_network).map(network_finding)
}

/// Reports that the user named a node that is not ready.
fn named_not_ready(subject: &Subject<'_>) -> Option<Finding> {
    let node = subject.world.node(subject.node?)?;
    let message = format!(
        "Node {} is not ready ({}): its Pods are not endpoints, and nothing updates its state",
        node.name,
        state(node, "Ready")
    );
    (!node.is_ready()).then(|| {
        finding_about(
            node.0,
            CODE,
            Severity::Error,
            "status.conditions",
            message,
            repair(node),
        )
    })
}

/// Returns the reason and message of a condition.
fn state(node: Node<'_>, kind: &str) -> String {
    let condition = node.0.condition(kind);
    let text = |field: &str| {
        condition
            .and_then(|condition| condition[field].as_str())
            .unwrap_or_default()
    };
    let message = text("message").trim_end_matches('.');
    format!("{} {message}", text("reason")).trim().to_owned()
}

fn repair(node: Node<'_>) -> String {
    format!(
        "Repair the kubelet or the network of the node, or delete the Node so that its Pods are replaced: {}",
        kubectl::command("describe", node.0)
    )
}

/// Reports Pods that are not ready because the kubelet of their node does not report.
fn not_ready(subject: &Subject<'_>) -> Option<Finding> {
    let (pod, node) = subject.active().find_map(|pod| {
        let node = subject.world.node(pod.node())?;
        (!node.is_ready()).then_some((pod, node))
    })?;
    let is_named = subject.node == Some(node.0.name.as_str());
    let severity = if subject.has_ready_endpoint() && !is_named {
        Severity::Warning
    } else {
        Severity::Error
    };
    let message = format!(
        "Pod {} of Service {} is on Node {}, which is not ready ({})",
        pod.name,
        subject.service.name,
        node.name,
        state(node, "Ready")
    );
    Some(finding_about(
        node.0,
        CODE,
        severity,
        "status.conditions",
        message,
        repair(node),
    ))
}

/// Reports Pods of a node that was deleted. They are endpoints until the garbage collection of Pods.
fn absent_node(subject: &Subject<'_>) -> Option<Finding> {
    let pod = subject
        .active()
        .find(|pod| !pod.node().is_empty() && subject.world.node(pod.node()).is_none())?;
    let severity = if subject.has_ready_endpoint() {
        Severity::Warning
    } else {
        Severity::Error
    };
    let message = format!(
        "Pod {} of Service {} is on Node {}, which does not exist: connections to the Pod time out",
        pod.name,
        subject.service.name,
        pod.node()
    );
    let remedy = format!(
        "Delete the Pod, so that its controller replaces it: {} --force",
        kubectl::command("delete", pod.0)
    );
    Some(finding_about(
        pod.0,
        CODE,
        severity,
        "spec.nodeName",
        message,
        remedy,
    ))
}

/// Returns the reason why load balancers leave out a node, with the field.
fn exclusion(node: Node<'_>) -> Option<(&'static str, String)> {
    let mut taints = node.0.list("/spec/taints").iter();
    if node.0.label(EXCLUDE_LABEL).is_some() {
        return Some((
            "metadata.labels[node.kubernetes.io/exclude-from-external-load-balancers]",
            format!("has the label {EXCLUDE_LABEL}"),
        ));
    }
    if taints.any(|taint| taint["key"] == DELETION_TAINT) {
        return Some(("spec.taints", format!("has the taint {DELETION_TAINT}")));
    }
    let is_cordoned = node.0.flag("/spec/unschedulable");
    is_cordoned.then(|| ("spec.unschedulable", "is cordoned".to_owned()))
}

/// Reports a load balancer of which all usable nodes are left out. With a local policy, only nodes with endpoints are
/// usable.
fn nodes_excluded(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    let is_local = service.text("/spec/externalTrafficPolicy") == "Local";
    let serving = nodes_with_endpoints(subject);
    let is_usable = |node: &Node<'_>| node.is_ready() && (!is_local || serving.contains(node.name.as_str()));
    let usable: Vec<Node<'_>> = subject.world.nodes().filter(is_usable).collect();
    // Load balancers that run on the nodes themselves and have their addresses do not read the label.
    let serves = |node: &Node<'_>| node.ips().iter().any(|ip| service.ingress_ips().contains(ip));
    if usable
        .iter()
        .any(|node| exclusion(*node).is_none() || serves(node))
    {
        return None;
    }
    // The nodes of the control plane have the label in any case.
    let is_worker = |node: &&Node<'_>| node.label(CONTROL_PLANE_LABEL).is_none();
    let node = usable.iter().find(is_worker).or(usable.first())?;
    let (field, reason) = exclusion(*node)?;
    let which = if is_local {
        "nodes with endpoints"
    } else {
        "ready nodes"
    };
    let count = usable.len();
    let are_labelled = usable.iter().all(|node| node.label(EXCLUDE_LABEL).is_some());
    let message = if are_labelled {
        format!(
            "All {count} {which} have the label {EXCLUDE_LABEL}, so no node takes connections for load balancer {}",
            service.name
        )
    } else {
        format!(
            "Load balancers leave out all {count} {which}, so no node takes connections for load balancer {}: node {} {reason}",
            service.name, node.name
        )
    };
    Some(finding_about(
        node.0,
        CODE,
        Severity::Error,
        field,
        message,
        inclusion(*node),
    ))
}

/// With a local policy, endpoints on a node that load balancers leave out receive no connections.
fn excluded_endpoint(subject: &Subject<'_>) -> Option<Finding> {
    let service = subject.service;
    if service.text("/spec/externalTrafficPolicy") != "Local" {
        return None;
    }
    let with_endpoints = nodes_with_endpoints(subject);
    let nodes = with_endpoints.iter().filter_map(|name| subject.world.node(name));
    // Nodes under maintenance keep their connections.
    let mut excluded = nodes.filter(|node| {
        let serves = node.ips().iter().any(|ip| service.ingress_ips().contains(ip));
        node.label(CONTROL_PLANE_LABEL).is_none() && !node.0.flag("/spec/unschedulable") && !serves
    });
    let (node, (field, reason)) = excluded.find_map(|node| Some((node, exclusion(node)?)))?;
    let message = format!(
        "Node {} {reason}, so load balancers leave it out. externalTrafficPolicy of Service {} is Local, so its endpoints on the node get no \
         connections from outside of the cluster",
        node.name, service.name
    );
    Some(finding_about(
        node.0,
        CODE,
        Severity::Warning,
        field,
        message,
        inclusion(node),
    ))
}

/// Returns the step that makes load balancers use a node again.
fn inclusion(node: Node<'_>) -> String {
    if node.0.label(EXCLUDE_LABEL).is_some() {
        return format!("{} {EXCLUDE_LABEL}-", kubectl::command("label", node.0));
    }
    if node.0.flag("/spec/unschedulable") {
        let uncordon = kubectl::command("uncordon", node.0).replace("uncordon node", "uncordon");
        return format!("End the maintenance of the node: {uncordon}");
    }
    format!(
        "Use another node. The autoscaler deletes this one: {}",
        kubectl::command("describe", node.0)
    )
}

/// Reports that the advertisements of MetalLB select no node, or only nodes that are not ready.
fn nodes_unselected(subject: &Subject<'_>) -> Option<Finding> {
    let world = subject.world;
    let pool = allocated_pool(subject)?;
    let mut advertisements = world
        .all(Kind::L2Advertisement)
        .chain(world.all(Kind::BgpAdvertisement))
        .filter(|advertisement| selects_pool(advertisement, pool))
        .peekable();
    let first = *advertisements.peek()?;
    let selects_node = |advertisement: &Object| {
        let selectors = advertisement.list("/spec/nodeSelectors");
        let matches = |selector: &Value, node: Node<'_>| {
            let selector = LabelSelector::from_object(&Path::new("selector"), selector);
            selector.map_or(true, |selector| selector.matches(|key| node.0.label(key)))
        };
        let mut nodes = world.nodes().filter(|node| node.is_ready());
        selectors.is_empty() || nodes.any(|node| selectors.iter().any(|selector| matches(selector, node)))
    };
    if advertisements.any(selects_node) {
        return None;
    }
    let message = format!(
        "The node selectors of {} {} select no ready node, so no node announces the load balancer IP of Service {}",
        first.kind.name(),
        first.name,
        subject.service.name
    );
    let remedy = format!(
        "Change the selectors or the labels of the nodes: {}",
        kubectl::command("edit", first)
    );
    Some(finding_about(
        first,
        CODE,
        Severity::Error,
        "spec.nodeSelectors",
        message,
        remedy,
    ))
}

/// Returns the pool of MetalLB that the load balancer IP is of.
fn allocated_pool<'w>(subject: &Subject<'w>) -> Option<&'w Object> {
    let mut annotations = POOL_ANNOTATIONS
        .iter()
        .filter_map(|name| subject.service.0.annotation(name));
    let name = annotations.next()?;
    let mut pools = subject.world.all(Kind::IpAddressPool);
    pools.find(|pool| pool.name == name)
}

/// Returns true if an advertisement of MetalLB selects a pool.
fn selects_pool(advertisement: &Object, pool: &Object) -> bool {
    let names = advertisement.list("/spec/ipAddressPools");
    let selectors = advertisement.list("/spec/ipAddressPoolSelectors");
    let is_selected = |selector: &Value| {
        let selector = LabelSelector::from_object(&Path::new("selector"), selector);
        selector.map_or(true, |selector| selector.matches(|key| pool.label(key)))
    };
    let is_all = names.is_empty() && selectors.is_empty();
    is_all || names.iter().any(|listed| *listed == *pool.name) || selectors.iter().any(is_selected)
}

/// Reports that no node may announce the address, as the assigner states in a condition.
fn address_unannounced(subject: &Subject<'_>) -> Option<Finding> {
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

/// Reports that the address is of a pool of MetalLB that no advertisement selects.
fn pool_unadvertised(subject: &Subject<'_>) -> Option<Finding> {
    let world = subject.world;
    let service = subject.service;
    let pool = allocated_pool(subject)?;
    // An input of a whole cluster has no kind without objects.
    let kinds = [Kind::L2Advertisement, Kind::BgpAdvertisement];
    if !kinds.into_iter().any(|kind| world.has(kind)) {
        return None;
    }
    let mut advertisements = kinds.into_iter().flat_map(|kind| world.all(kind));
    if advertisements.any(|advertisement| selects_pool(advertisement, pool)) {
        return None;
    }
    let name = &pool.name;
    let message = format!(
        "No L2Advertisement or BGPAdvertisement selects the pool {name}, so no node announces the load balancer IP of Service {}",
        service.name
    );
    let remedy = format!(
        "Create an L2Advertisement with ipAddressPools: [{name}] in namespace {}",
        pool.namespace
    );
    Some(finding_about(
        pool,
        CODE,
        Severity::Error,
        "metadata.name",
        message,
        remedy,
    ))
}

/// Reports that load balancers leave out the node that the user named. The label of control planes is normal.
fn named_node(subject: &Subject<'_>) -> Option<Finding> {
    let node = subject.world.node(subject.node?)?;
    let is_control_plane = node.label(CONTROL_PLANE_LABEL).is_some();
    let (field, reason) = exclusion(node).filter(|_| subject.is_named || !is_control_plane)?;
    let message = format!(
        "Node {} {reason}, so load balancers do not send connections for Service {} to it",
        node.name, subject.service.name
    );
    Some(finding_about(
        node.0,
        CODE,
        Severity::Info,
        field,
        message,
        inclusion(node),
    ))
}
