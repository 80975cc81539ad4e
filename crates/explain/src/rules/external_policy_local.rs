//! PTL-0025.

use std::collections::BTreeSet;

use plan::Target;

use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::node_plan::{external_target, plan_of};
use crate::rule::Rule;
use crate::subject::Subject;

pub const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("external_policy_local.md"),
    explained_by: &[Code(35)],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(25);
const FIELD: &str = "spec.externalTrafficPolicy";
/// Nodes in a message, at most.
const NAMES_MAX: usize = 8;

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let is_local = subject.service.text("/spec/externalTrafficPolicy") == "Local";
    if !is_local || !subject.knows_endpoints() {
        return Vec::new();
    }
    if let Some(node) = subject.node {
        return on_node(subject, node).into_iter().collect();
    }
    anywhere(subject)
        .or_else(|| uncovered(subject))
        .into_iter()
        .collect()
}

/// Returns true if a node drops connections from outside of the cluster to a port, although the Service has usable endpoints.
fn drops(subject: &Subject<'_>, node: &str) -> bool {
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

fn on_node(subject: &Subject<'_>, node: &str) -> Option<Finding> {
    if !drops(subject, node) {
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

/// Nodes with usable endpoints, by the names in the slices.
fn nodes<'w>(subject: &Subject<'w>) -> BTreeSet<&'w str> {
    let endpoints = subject.slices().iter().flat_map(|slice| slice.endpoints());
    endpoints
        .filter(|endpoint| endpoint.is_serving() || endpoint.is_ready())
        .map(|endpoint| endpoint.node())
        .collect()
}

/// No endpoint is local on any node: hand-made slices without `nodeName`, or with other names than those of the Nodes.
fn anywhere(subject: &Subject<'_>) -> Option<Finding> {
    let nodes = nodes(subject);
    let is_node =
        |name: &&&str| !name.is_empty() && (!subject.has(Kind::Node) || subject.world.node(name).is_some());
    if nodes.iter().any(|name| is_node(&name)) || !drops(subject, "") {
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

/// Nodes without an endpoint. Load balancers that check the health of nodes leave them out. Reported if the user named the Service.
fn uncovered(subject: &Subject<'_>) -> Option<Finding> {
    if subject.service.kind() == "ClusterIP" || !subject.is_named || subject.is_rolling() {
        return None;
    }
    let mut nodes = subject
        .world
        .nodes()
        .filter(|node| node.is_ready())
        .map(|node| node.0.name.as_str());
    let dropping: Vec<&str> = nodes
        .by_ref()
        .filter(|node| drops(subject, node))
        .take(NAMES_MAX + 1)
        .collect();
    if dropping.is_empty() {
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
    Some(subject.finding(CODE, Severity::Info, FIELD, message, remedy(subject)))
}
