//! Rights of a node's agent: it writes its Node and Lease, and reads its Pods and the objects that they reference.
//! The rules are those of upstream's `plugin/pkg/auth/authorizer/node/node_authorizer.go` (1.36, with
//! `AuthorizeNodeWithSelectors`).

mod graph;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, OnceLock, PoisonError};

use api::rbac::{Action, PolicyRule};
use store::Index;

use super::Attributes;
use super::default_roles;
use graph::{Graph, ObjectType};

/// Namespace of node Leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Decision of the mode `Node`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeDecision {
    Allowed,
    /// The request is denied, with upstream's reason.
    Denied(String),
    /// The user is not a node, or upstream gives no reason.
    NoOpinion,
}

/// Decides about requests of nodes.
#[derive(Default)]
pub(super) struct NodeAuthorizer {
    graph: Mutex<Graph>,
}

/// Parsed attributes of a node's request.
struct Request<'a> {
    node: &'a str,
    verb: &'a str,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
    selected_node: &'a str,
}

impl NodeAuthorizer {
    /// Decides about a request with the current Pods of the index.
    pub(super) fn decide(&self, attributes: &Attributes<'_>, index: &Index) -> NodeDecision {
        let (
            Some(node),
            Action::Resource {
                verb,
                group,
                resource,
                subresource,
                name,
            },
        ) = (attributes.user.node_name(), attributes.action)
        else {
            return NodeDecision::NoOpinion;
        };
        if node.is_empty() {
            return denied(format!("unknown node for user {:?}", attributes.user.user));
        }
        let request = Request {
            node,
            verb,
            subresource,
            namespace: attributes.namespace,
            name,
            selected_node: attributes.selected_node,
        };
        match (group, resource) {
            ("", "secrets") => self.decide_read(&request, ObjectType::Secret, index),
            ("", "configmaps") => self.decide_read(&request, ObjectType::ConfigMap, index),
            ("", "serviceaccounts") => self.decide_token(&request, index),
            ("", "pods") => self.decide_pod(&request, index),
            ("", "nodes") => decide_node(&request),
            ("coordination.k8s.io", "leases") => decide_lease(&request),
            _ if rules().iter().any(|rule| rule.allows(&attributes.action)) => NodeDecision::Allowed,
            _ => NodeDecision::NoOpinion,
        }
    }

    /// Applies Pod changes, if a node has made a request before.
    pub(super) fn refresh(&self, index: &Index) {
        let mut graph = self.lock();
        if graph.is_loaded() {
            graph.refresh(index);
        }
    }

    fn decide_read(&self, request: &Request<'_>, object_type: ObjectType, index: &Index) -> NodeDecision {
        if !matches!(request.verb, "get" | "list" | "watch") {
            return denied("can only read resources of this type");
        }
        if !request.subresource.is_empty() {
            return denied("cannot read subresource");
        }
        if request.namespace.is_empty() {
            return denied("can only read namespaced object of this type");
        }
        self.decide_related(request, object_type, index)
    }

    fn decide_token(&self, request: &Request<'_>, index: &Index) -> NodeDecision {
        if request.verb != "create" || request.name.is_empty() {
            return denied("can only create tokens for individual service accounts");
        }
        if request.subresource != "token" {
            return denied("can only create token subresource of serviceaccount");
        }
        self.decide_related(request, ObjectType::ServiceAccount, index)
    }

    /// Decides about Pods. Creations name the node in the object; admission (NodeRestriction) checks them.
    fn decide_pod(&self, request: &Request<'_>, index: &Index) -> NodeDecision {
        match (request.subresource, request.verb) {
            ("", "get") => self.decide_related(request, ObjectType::Pod, index),
            ("", "list" | "watch") if request.selected_node == request.node => NodeDecision::Allowed,
            ("", "list" | "watch") if !request.name.is_empty() => {
                self.decide_related(request, ObjectType::Pod, index)
            }
            ("", "list" | "watch") => denied("can only list/watch pods with spec.nodeName field selector"),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                NodeDecision::Allowed
            }
            _ => NodeDecision::NoOpinion,
        }
    }

    /// Allows the request if its object is a Pod of the node, or if a Pod of the node references it.
    fn decide_related(&self, request: &Request<'_>, object_type: ObjectType, index: &Index) -> NodeDecision {
        let (node, namespace, name) = (request.node, request.namespace, request.name);
        if name.is_empty() {
            return denied("No Object name found");
        }
        let mut graph = self.lock();
        graph.refresh(index);
        if graph.is_related(node, object_type, namespace, name) {
            NodeDecision::Allowed
        } else {
            denied(format!(
                "no relationship found between node '{node}' and this object"
            ))
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decides about Nodes by name, so that an agent may read its Node before it has created it.
fn decide_node(request: &Request<'_>) -> NodeDecision {
    let (node, name) = (request.node, request.name);
    match (request.subresource, request.verb) {
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => NodeDecision::Allowed,
        ("", "get" | "list" | "watch") => match name {
            _ if name == node => NodeDecision::Allowed,
            "" => denied(format!(
                "node '{node}' cannot read all nodes, only its own Node object"
            )),
            _ => denied(format!(
                "node '{node}' cannot read '{name}', only its own Node object"
            )),
        },
        _ => NodeDecision::NoOpinion,
    }
}

/// Decides about Leases. The name of a new Lease is in the body, where admission checks it.
fn decide_lease(request: &Request<'_>) -> NodeDecision {
    if !matches!(request.verb, "get" | "create" | "update" | "patch" | "delete") {
        return denied("can only get, create, update, patch, or delete a node lease");
    }
    if request.namespace != LEASE_NAMESPACE {
        return denied(format!(
            "can only access leases in the {LEASE_NAMESPACE:?} system namespace"
        ));
    }
    if request.verb != "create" && request.name != request.node {
        return denied("can only access node lease with the same name as the requesting node");
    }
    NodeDecision::Allowed
}

/// Returns the rules that are the same for all nodes: those of the role `system:node`, without the resources that are
/// decided above.
pub(super) fn rules() -> &'static [PolicyRule] {
    static RULES: OnceLock<Vec<PolicyRule>> = OnceLock::new();
    RULES.get_or_init(|| {
        let mut rules = default_roles::rules_of_role("system:node");
        rules.retain(|rule| {
            let decided_by_name = [
                "secrets",
                "configmaps",
                "serviceaccounts/token",
                "leases",
                "pods",
                "pods/status",
                "nodes",
                "nodes/status",
            ];
            !rule
                .resources
                .iter()
                .any(|resource| decided_by_name.contains(&resource.as_str()))
        });
        rules
    })
}

fn denied(reason: impl Into<String>) -> NodeDecision {
    NodeDecision::Denied(reason.into())
}
