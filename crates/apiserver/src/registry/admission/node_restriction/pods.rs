//! Pods that a node creates, deletes, or updates the status of.

use api::kind;
use api::pod::{MIRROR_ANNOTATION, api_object_reference, is_mirror};
use api::tree::{child, entries, flag_if_set, items, text};
use serde_json::Value;
use store::Index;

use super::{Refusal, finalizers, read_stored};
use crate::failure::Failure;
use crate::registry::admission::WriteAttempt;
use crate::request::route::Target;

/// Admits a new Pod or an update of its status.
pub(super) fn admit(
    node: &str,
    index: &Index,
    attempt: &WriteAttempt<'_>,
    pod: &Value,
) -> Result<(), Refusal> {
    match (attempt.target.subresource, attempt.stored) {
        (None, None) => admit_creation(node, index, pod),
        (None, Some(_)) => Err(format!(
            "unexpected operation \"UPDATE\", node {node:?} can only create and delete mirror pods"
        )
        .into()),
        (Some("status"), Some(stored)) => admit_status(node, stored, pod),
        (subresource, _) => Err(format!(
            "unexpected pod subresource {:?}, only 'status' and 'eviction' are allowed",
            subresource.unwrap_or_default()
        )
        .into()),
    }
}

/// Admits a deletion of a Pod on the node. A missing Pod is reported as 404.
pub(super) fn admit_delete(node: &str, index: &Index, target: &Target) -> Result<(), Refusal> {
    match read_stored(index, target)? {
        pod if is_on_node(node, &pod) => Ok(()),
        _ => Err(format!("node {node:?} can only delete pods with spec.nodeName set to itself").into()),
    }
}

fn is_on_node(node: &str, pod: &Value) -> bool {
    text(child(pod, "spec"), "nodeName") == node
}

/// Admits mirror Pods of the node that reference no API objects.
fn admit_creation(node: &str, index: &Index, pod: &Value) -> Result<(), Refusal> {
    if !is_mirror(pod) {
        let message = format!(
            "pod does not have {MIRROR_ANNOTATION:?} annotation, node {node:?} can only create mirror pods"
        );
        return Err(message.into());
    }
    if !is_on_node(node, pod) {
        let message = format!("node {node:?} can only create pods with spec.nodeName set to itself");
        return Err(message.into());
    }
    if !finalizers(pod).is_empty() {
        return Err(format!("node {node:?} can not create pods with finalizers").into());
    }
    admit_owner(node, index, pod)?;
    match api_object_reference(child(pod, "spec")) {
        None => Ok(()),
        Some(resource) => Err(format!("node {node:?} can not create pods that reference {resource}").into()),
    }
}

/// Checks that the only owner of a mirror Pod is its Node, so that garbage collection deletes them together.
fn admit_owner(node: &str, index: &Index, pod: &Value) -> Result<(), Refusal> {
    let not_owned = || format!("node {node:?} can only create pods with an owner reference set to itself");
    let owner = match items(child(pod, "metadata"), "ownerReferences") {
        [] => return Err(not_owned().into()),
        [owner] => owner,
        _ => {
            let message =
                format!("node {node:?} can only create pods with a single owner reference set to itself");
            return Err(message.into());
        }
    };
    if ["apiVersion", "kind", "name"].map(|field| text(owner, field)) != ["v1", "Node", node] {
        return Err(not_owned().into());
    }
    if flag_if_set(owner, "controller") != Some(true) {
        let message =
            format!("node {node:?} can only create pods with a controller owner reference set to itself");
        return Err(message.into());
    }
    if flag_if_set(owner, "blockOwnerDeletion") == Some(true) {
        return Err(format!("node {node:?} must not set blockOwnerDeletion on an owner reference").into());
    }
    let nodes = kind::find("", "v1", "nodes").ok_or_else(|| Refusal::Unreadable(Failure::no_such_path()))?;
    let registered = read_stored(index, &Target::object(nodes, "", node))?;
    let (given, found) = (text(owner, "uid"), text(child(&registered, "metadata"), "uid"));
    if given == found {
        Ok(())
    } else {
        Err(format!("node {node} UID mismatch: expected {given} got {found}").into())
    }
}

fn admit_status(node: &str, before: &Value, after: &Value) -> Result<(), Refusal> {
    if !is_on_node(node, before) {
        let message =
            format!("node {node:?} can only update pod status for pods with spec.nodeName set to itself");
        return Err(message.into());
    }
    let labels = |pod| -> Vec<(&str, &str)> {
        let mut labels: Vec<_> = entries(child(pod, "metadata"), "labels").collect();
        labels.sort_unstable();
        labels
    };
    if labels(before) != labels(after) {
        return Err(format!("node {node:?} cannot update labels through pod status").into());
    }
    // A Pod with a finalizer of the node would outlast its deletion, and delay that of its Namespace.
    if finalizers(before) != finalizers(after) {
        return Err(format!("node {node:?} cannot update finalizers through pod status").into());
    }
    if claims(before) != claims(after) {
        return Err(format!("node {node:?} cannot update resource claim statues").into());
    }
    let extended = |pod| child(child(pod, "status"), "extendedResourceClaimStatus");
    if extended(before) == extended(after) {
        Ok(())
    } else {
        Err(format!("node {node:?} cannot update extended resource claim status").into())
    }
}

/// Returns the resource claims in a Pod's status, by name.
fn claims(pod: &Value) -> Vec<(&str, &Value)> {
    let statuses = items(child(pod, "status"), "resourceClaimStatuses").iter();
    statuses
        .map(|status| (text(status, "name"), child(status, "resourceClaimName")))
        .collect()
}
