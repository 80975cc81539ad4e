//! The rights of a node's agent: it writes about itself, and reads its own Pods and what they refer to. The rules are those
//! of upstream's `plugin/pkg/auth/authorizer/node/node_authorizer.go` (1.36, with `AuthorizeNodeWithSelectors`).

mod graph;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, OnceLock, PoisonError};

use api::rbac::{Action, PolicyRule};
use store::Index;

use super::Attributes;
use super::default_roles;
use graph::{Graph, Referent};

/// The namespace of the Leases of nodes.
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Decision for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// The mode does not allow the request; the reason in upstream's words.
    Refused(String),
    /// The user is no node, or nothing is to be said about the refusal.
    NoOpinion,
}

/// Decides about the requests of nodes.
#[derive(Default)]
pub(super) struct NodeAuthorizer {
    graph: Mutex<Graph>,
}

/// A request of a node, taken apart.
struct Request<'a> {
    node: &'a str,
    verb: &'a str,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
    selected_node: &'a str,
}

impl NodeAuthorizer {
    /// Decides about a request with the Pods as they are in the index now.
    pub(super) fn decide(&self, attributes: &Attributes<'_>, index: &Index) -> Verdict {
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
            return Verdict::NoOpinion;
        };
        if node.is_empty() {
            return refused(format!("unknown node for user {:?}", attributes.user.user));
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
            ("", "secrets") => self.decide_read(&request, Referent::Secret, index),
            ("", "configmaps") => self.decide_read(&request, Referent::ConfigMap, index),
            ("", "serviceaccounts") => self.decide_token(&request, index),
            ("", "pods") => self.decide_pod(&request, index),
            ("", "nodes") => decide_node(&request),
            ("coordination.k8s.io", "leases") => decide_lease(&request),
            _ if rules().iter().any(|rule| rule.allows(&attributes.action)) => Verdict::Allowed,
            _ => Verdict::NoOpinion,
        }
    }

    /// Takes in the Pods that have changed, if any node has asked yet.
    pub(super) fn refresh(&self, index: &Index) {
        let mut graph = self.lock();
        if graph.is_in_use() {
            graph.refresh(index);
        }
    }

    fn decide_read(&self, request: &Request<'_>, referent: Referent, index: &Index) -> Verdict {
        if !matches!(request.verb, "get" | "list" | "watch") {
            return refused("can only read resources of this type");
        }
        if !request.subresource.is_empty() {
            return refused("cannot read subresource");
        }
        if request.namespace.is_empty() {
            return refused("can only read namespaced object of this type");
        }
        self.decide_related(request, referent, index)
    }

    fn decide_token(&self, request: &Request<'_>, index: &Index) -> Verdict {
        if request.verb != "create" || request.name.is_empty() {
            return refused("can only create tokens for individual service accounts");
        }
        if request.subresource != "token" {
            return refused("can only create token subresource of serviceaccount");
        }
        self.decide_related(request, Referent::ServiceAccount, index)
    }

    /// Writes of Pods are for the admission plugin NodeRestriction to look into: they name the node in the object.
    fn decide_pod(&self, request: &Request<'_>, index: &Index) -> Verdict {
        match (request.subresource, request.verb) {
            ("", "get") => self.decide_related(request, Referent::Pod, index),
            ("", "list" | "watch") if request.selected_node == request.node => Verdict::Allowed,
            ("", "list" | "watch") if !request.name.is_empty() => {
                self.decide_related(request, Referent::Pod, index)
            }
            ("", "list" | "watch") => refused("can only list/watch pods with spec.nodeName field selector"),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                Verdict::Allowed
            }
            _ => Verdict::NoOpinion,
        }
    }

    /// Allows it if a Pod of the node is, or refers to, the object that the request names.
    fn decide_related(&self, request: &Request<'_>, referent: Referent, index: &Index) -> Verdict {
        let (node, namespace, name) = (request.node, request.namespace, request.name);
        if name.is_empty() {
            return refused("No Object name found");
        }
        let mut graph = self.lock();
        graph.refresh(index);
        match graph.leads_to(node, referent, namespace, name) {
            true => Verdict::Allowed,
            false => refused(format!(
                "no relationship found between node '{node}' and this object"
            )),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names are compared, so that an agent may look for its Node before it has created it.
fn decide_node(request: &Request<'_>) -> Verdict {
    let (node, name) = (request.node, request.name);
    match (request.subresource, request.verb) {
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Verdict::Allowed,
        ("", "get" | "list" | "watch") => match name {
            _ if name == node => Verdict::Allowed,
            "" => refused(format!(
                "node '{node}' cannot read all nodes, only its own Node object"
            )),
            _ => refused(format!(
                "node '{node}' cannot read '{name}', only its own Node object"
            )),
        },
        _ => Verdict::NoOpinion,
    }
}

/// The name of a new Lease is in its body, where the admission plugin looks for it.
fn decide_lease(request: &Request<'_>) -> Verdict {
    if !matches!(request.verb, "get" | "create" | "update" | "patch" | "delete") {
        return refused("can only get, create, update, patch, or delete a node lease");
    }
    if request.namespace != LEASE_NAMESPACE {
        return refused(format!(
            "can only access leases in the {LEASE_NAMESPACE:?} system namespace"
        ));
    }
    if request.verb != "create" && request.name != request.node {
        return refused("can only access node lease with the same name as the requesting node");
    }
    Verdict::Allowed
}

/// The rules that are the same for every node: those of the role `system:node` but for what is decided above.
pub(super) fn rules() -> &'static [PolicyRule] {
    static RULES: OnceLock<Vec<PolicyRule>> = OnceLock::new();
    RULES.get_or_init(|| {
        let mut rules = default_roles::rules_of_role("system:node");
        rules.retain(|rule| {
            let decided = [
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
                .any(|resource| decided.contains(&resource.as_str()))
        });
        rules
    })
}

fn refused(why: impl Into<String>) -> Verdict {
    Verdict::Refused(why.into())
}
