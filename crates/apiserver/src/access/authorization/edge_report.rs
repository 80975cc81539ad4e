//! Status Leases of edges. The edge of a node reports in a Lease which ports it cannot serve, and may write only the
//! Lease of its node. Roles cannot express this, because the name of the Lease contains the node name.

use api::certificates::{NodeIdentity, NodePart};
use api::rbac::Action;

use super::Attributes;
use super::edge_secrets::OTHER_EDGES;

/// Namespace of the Leases.
const NAMESPACE: &str = "kube-system";
/// Prefix of a Lease's name; the node's name follows.
const LEASE_PREFIX: &str = "portolan-edge-";
/// Returns true if the user is an edge and the request is for the Lease of its node.
pub(super) fn is_allowed(attributes: &Attributes<'_>) -> bool {
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
    let is_own_lease = match NodeIdentity::of(&user.user, &user.groups) {
        Some(own) => own.part == Some(NodePart::Edge) && own.node_name == node,
        None => OTHER_EDGES.contains(&user.user.as_str()),
    };
    // Server-side apply creates the Lease, so its name is in the path.
    is_own_lease && attributes.namespace == NAMESPACE && matches!(verb, "create" | "get" | "patch")
}

#[cfg(test)]
mod tests;
