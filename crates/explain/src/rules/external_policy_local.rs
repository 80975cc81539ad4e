//! PTL-0025: the external policy is Local, and the node has no endpoint.

use plan::Target;

use super::{node_unusable, service_terminating};
use crate::facts::service_plan::{external_target, nodes_with_endpoints, plan_of};
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::Subject;
use crate::views::Node;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("external_policy_local.md"),
    explained_by: &[service_terminating::CODE, node_unusable::CODE],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(25);
const FIELD: &str = "spec.externalTrafficPolicy";
/// Label of nodes that receive no connections from load balancers (upstream: `LabelNodeExcludeBalancers`).
const EXCLUDE_LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Maximum number of Nodes in a message.
const NAMES_MAX: usize = 8;

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let is_local = subject.service.text("/spec/externalTrafficPolicy") == "Local";
    if !is_local || !subject.knows_endpoints() {
        return Vec::new();
    }
    if let Some(node) = subject.node {
        return dropping_node(subject, node).into_iter().collect();
    }
    no_local_endpoint(subject)
        .or_else(|| client_of_dropping_node(subject))
        .or_else(|| node_address(subject))
        .or_else(|| uncovered_nodes(subject))
        .into_iter()
        .collect()
}

/// Returns true if a node drops connections from outside of the cluster to a port, although the Service has usable
/// endpoints.
fn drops_external_connections(subject: &Subject<'_>, node: &str) -> bool {
    plan_of(subject, node).is_some_and(|plan| {
        plan.ports()
            .any(|port| external_target(port) == Some(Target::Drop))
    })
}

fn remedy(subject: &Subject<'_>) -> String {
    format!(
        "Run a Pod on each node that clients use, or let nodes forward to others, which hides client addresses: {}",
        kubectl::replace(subject.service.0, "/spec/externalTrafficPolicy", "Cluster")
    )
}

fn dropping_node(subject: &Subject<'_>, node: &str) -> Option<Finding> {
    // Load balancers leave out the nodes of the control plane.
    let is_left_out = subject
        .world
        .node(node)
        .is_some_and(|node| node.0.label(EXCLUDE_LABEL).is_some());
    if subject.service.kind() == "LoadBalancer" && is_left_out && !subject.is_named
        || !drops_external_connections(subject, node)
    {
        return None;
    }
    let message = format!(
        "externalTrafficPolicy of Service {} is Local, and node {node} has no usable endpoint: the node drops connections from outside of the \
         cluster",
        subject.service.name
    );
    let finding = subject.finding(CODE, Severity::Warning, FIELD, message, remedy(subject));
    let port = subject.service.number("/spec/healthCheckNodePort");
    Some(match port {
        Some(port) => finding.with_evidence(format!(
            "The health check node port {port} of node {node} answers 503"
        )),
        None => finding,
    })
}

/// Reports that no endpoint is local on any node: hand-made slices without `nodeName`, or with names other than those
/// of the Nodes.
fn no_local_endpoint(subject: &Subject<'_>) -> Option<Finding> {
    let nodes = nodes_with_endpoints(subject);
    let is_node =
        |name: &&&str| !name.is_empty() && (!subject.has(Kind::Node) || subject.world.node(name).is_some());
    if nodes.iter().any(|name| is_node(&name)) || !drops_external_connections(subject, "") {
        return None;
    }
    let state = match nodes.iter().find(|name| !name.is_empty()) {
        Some(name) => format!("the node {name} of its endpoints does not exist"),
        None => "its endpoints do not name their nodes".to_owned(),
    };
    let message = format!(
        "externalTrafficPolicy of Service {} is Local, and {state}: all nodes drop connections from outside of the cluster",
        subject.service.name
    );
    let remedy = format!(
        "Set nodeName of the endpoints, or the policy Cluster: {}",
        kubectl::replace(subject.service.0, "/spec/externalTrafficPolicy", "Cluster")
    );
    let slice = subject.slices().first()?;
    let finding = subject.finding(CODE, Severity::Error, FIELD, message, remedy);
    Some(finding.with_evidence(format!(
        "EndpointSlice {} has endpoints that are local on no node",
        slice.name
    )))
}

/// Reports that a Pod uses the node port at the address of a node that drops its connections.
fn client_of_dropping_node(subject: &Subject<'_>) -> Option<Finding> {
    let references = subject.world.references_to(subject.service);
    let mut dropped = references.filter_map(|(pod, reference)| {
        let node = subject.world.node_at(reference.address?)?;
        (pod.is_active() && drops_external_connections(subject, &node.name)).then_some((pod, reference, node))
    });
    let (pod, reference, node) = dropped.next()?;
    let message = format!(
        "externalTrafficPolicy of Service {} is Local, and node {} has no usable endpoint. Pod {}/{} uses {}, and the node drops its connections",
        subject.service.name, node.name, pod.namespace, pod.name, reference.text
    );
    Some(subject.finding(CODE, Severity::Warning, FIELD, message, remedy(subject)))
}

/// Reports that the load balancer IP is the address of a node that drops connections.
fn node_address(subject: &Subject<'_>) -> Option<Finding> {
    let addresses = subject.service.ingress_ips().into_iter();
    let mut nodes = addresses.filter_map(|address| Some((address, subject.world.node_at(address)?)));
    let (address, node) = nodes.find(|(_, node)| drops_external_connections(subject, &node.name))?;
    let message = format!(
        "externalTrafficPolicy of Service {} is Local, and its load balancer IP {address} is an address of node {}, which has no usable endpoint: \
         the node drops connections",
        subject.service.name, node.name
    );
    Some(subject.finding(CODE, Severity::Warning, FIELD, message, remedy(subject)))
}

/// Reports nodes without an endpoint, for node ports. Load balancers check the health of nodes and leave them out.
fn uncovered_nodes(subject: &Subject<'_>) -> Option<Finding> {
    if subject.service.kind() != "NodePort" || subject.is_rolling() {
        return None;
    }
    let is_usable = |node: &Node<'_>| {
        let is_tainted = !node.list("/spec/taints").is_empty() || node.0.label(EXCLUDE_LABEL).is_some();
        node.is_ready() && !is_tainted
    };
    let nodes: Vec<Node<'_>> = subject.world.nodes().filter(is_usable).collect();
    let with_endpoints = nodes_with_endpoints(subject);
    let names = nodes.iter().map(|node| node.0.name.as_str());
    let dropping: Vec<&str> = names.filter(|node| !with_endpoints.contains(node)).collect();
    // All nodes without endpoints have the same plan.
    if !drops_external_connections(subject, dropping.first()?) {
        return None;
    }
    let more = if dropping.len() > NAMES_MAX {
        " and others"
    } else {
        ""
    };
    let names = dropping.get(..NAMES_MAX).unwrap_or(&dropping).join(", ");
    let message = format!(
        "externalTrafficPolicy of Service {} is Local. Nodes without a usable endpoint drop connections from outside of the cluster: {names}{more}",
        subject.service.name
    );
    Some(subject.finding(CODE, Severity::Warning, FIELD, message, remedy(subject)))
}
