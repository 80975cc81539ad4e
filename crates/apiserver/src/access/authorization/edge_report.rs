//! Reports of edges. The edge of a node says which of its ports it cannot serve in a Lease of its own; no edge writes the
//! Lease of another node. Roles cannot say that: the name of the Lease is the node's.

use api::certificates::{NodeIdentity, NodePart};
use api::rbac::Action;

use super::Attributes;
use super::edge::OTHER_EDGES;

/// Namespace of the Leases.
const NAMESPACE: &str = "kube-system";
/// Prefix of a Lease's name; the node's name follows.
const LEASE_PREFIX: &str = "portolan-edge-";
/// Returns true if the user is an edge and may make the request for the Lease of its node.
pub(super) fn allows(attributes: &Attributes<'_>) -> bool {
    let Action::Resource {
        verb,
        group: "coordination.k8s.io",
        resource: "leases",
        subresource: "",
        name,
    } = attributes.action
    else {
        return false;
    };
    let Some(node) = name.strip_prefix(LEASE_PREFIX).filter(|node| !node.is_empty()) else {
        return false;
    };
    let user = attributes.user;
    let is_its_own = match NodeIdentity::of(&user.user, &user.groups) {
        Some(own) => own.part == Some(NodePart::Edge) && own.node_name == node,
        None => OTHER_EDGES.contains(&user.user.as_str()),
    };
    // A Lease is made by applying it, so that its name is known.
    is_its_own && attributes.namespace == NAMESPACE && matches!(verb, "create" | "get" | "patch")
}

#[cfg(test)]
mod tests;
