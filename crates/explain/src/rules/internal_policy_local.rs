//! PTL-0026: the internal policy is Local, and the client's node has no endpoint.

use std::collections::BTreeMap;

use plan::Target;

use super::{node_unusable, service_terminating};
use crate::facts::service_plan::{internal_target, nodes_with_endpoints, plan_of};
use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::{Subject, workload_of};
use crate::views::{Node, Pod};

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("internal_policy_local.md"),
    explained_by: &[service_terminating::CODE, node_unusable::CODE],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(26);
const FIELD: &str = "spec.internalTrafficPolicy";
/// Maximum number of Nodes that are examined for clients.
const NODES_MAX: usize = 64;

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let is_local = subject.service.text("/spec/internalTrafficPolicy") == "Local";
    if !is_local || !subject.knows_endpoints() {
        return Vec::new();
    }
    if let Some(node) = subject.node {
        return dropping_node(subject, node).into_iter().collect();
    }
    no_local_endpoint(subject)
        .map(|finding| vec![finding])
        .unwrap_or_else(|| {
            let findings = clients_on_dropping_nodes(subject);
            let uncovered = uncovered_node(subject).filter(|_| findings.is_empty());
            findings.into_iter().chain(uncovered).collect()
        })
}

/// Reports a node without an endpoint, although its Pods may be clients. DaemonSets leave out nodes on purpose.
fn uncovered_node(subject: &Subject<'_>) -> Option<Finding> {
    let is_of_daemon_set = |pod: Pod<'_>| workload_of(pod).0 == Kind::DaemonSet.name();
    if subject.is_rolling() || !subject.active().any(Pod::is_ready) || subject.active().any(is_of_daemon_set)
    {
        return None;
    }
    // Clients seldom run on nodes with taints, such as those of the control plane.
    let has_taints = |node: &Node<'_>| !node.list("/spec/taints").is_empty();
    let with_endpoints = nodes_with_endpoints(subject);
    let mut nodes = subject
        .world
        .nodes()
        .filter(|node| node.is_ready() && !has_taints(node));
    let node = nodes.find(|node| !with_endpoints.contains(node.0.name.as_str()))?;
    if !drops_connections(subject, &node.name) {
        return None;
    }
    let message = format!(
        "internalTrafficPolicy of Service {} is Local, and node {} has no usable endpoint: connections of its Pods to the cluster IP are dropped",
        subject.service.name, node.name
    );
    Some(subject.finding(CODE, Severity::Warning, FIELD, message, remedy(subject)))
}

/// Returns true if a node drops connections to a port of the cluster IP, although the Service has usable endpoints.
fn drops_connections(subject: &Subject<'_>, node: &str) -> bool {
    plan_of(subject, node).is_some_and(|plan| {
        plan.ports()
            .any(|port| internal_target(port) == Some(Target::Drop))
    })
}

fn remedy(subject: &Subject<'_>) -> String {
    format!(
        "Run a Pod on each node with clients, for example with a DaemonSet, or let clients use endpoints of other nodes: {}",
        kubectl::replace(subject.service.0, "/spec/internalTrafficPolicy", "Cluster")
    )
}

fn dropping_node(subject: &Subject<'_>, node: &str) -> Option<Finding> {
    // Without a client, the Pods of a control plane are of no concern.
    let is_tainted = subject
        .world
        .node(node)
        .is_some_and(|node| !node.list("/spec/taints").is_empty());
    let mut references = subject.world.references_to(subject.service);
    let mut has_client = || references.any(|(pod, _)| pod.is_active() && pod.node() == node);
    if is_tainted && !subject.is_named && !has_client() {
        return None;
    }
    let message = format!(
        "internalTrafficPolicy of Service {} is Local, and node {node} has no usable endpoint: connections of its Pods to the cluster IP are \
         dropped",
        subject.service.name
    );
    let finding = subject.finding(CODE, Severity::Error, FIELD, message, remedy(subject));
    drops_connections(subject, node).then_some(finding)
}

/// Reports that no endpoint is local on any node.
fn no_local_endpoint(subject: &Subject<'_>) -> Option<Finding> {
    let mut endpoints = subject.slices().iter().flat_map(|slice| slice.endpoints());
    let names_node = endpoints.any(|endpoint| {
        let node = endpoint.node();
        !node.is_empty() && (!subject.has(Kind::Node) || subject.world.node(node).is_some())
    });
    if names_node || !drops_connections(subject, "") {
        return None;
    }
    let message = format!(
        "internalTrafficPolicy of Service {} is Local, and its endpoints do not name an existing node: connections to the cluster IP are \
         dropped on all nodes",
        subject.service.name
    );
    Some(subject.finding(CODE, Severity::Error, FIELD, message, remedy(subject)))
}

/// Reports Pods that name the Service, on nodes that drop their connections.
fn clients_on_dropping_nodes(subject: &Subject<'_>) -> Vec<Finding> {
    let cluster_ips = subject.service.cluster_ips();
    let mut clients = BTreeMap::new();
    for (pod, reference) in subject.world.references_to(subject.service) {
        let is_internal = reference
            .address
            .is_none_or(|address| cluster_ips.contains(&address));
        if pod.is_active() && is_internal && !pod.node().is_empty() {
            clients.entry(pod.node()).or_insert((pod, reference));
        }
    }
    let clients = clients.into_iter().take(NODES_MAX);
    let dropped = clients.filter(|(node, _)| drops_connections(subject, node));
    dropped
        .map(|(node, (pod, reference))| {
            let message = format!(
                "internalTrafficPolicy of Service {} is Local, and node {node} has no usable endpoint: connections of Pod {}/{} to {} are \
                 dropped",
                subject.service.name, pod.namespace, pod.name, reference.text
            );
            subject.finding(CODE, Severity::Warning, FIELD, message, remedy(subject))
        })
        .collect()
}
