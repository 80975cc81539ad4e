//! NodeRestriction: the agent of a node writes about its own Node, its own lease and the Pods that run on it. So
//! a machine that somebody has taken over cannot harm the others.

use api::tree::{child, entries, is_set, text};
use serde_json::Value;
use store::Index;

use super::Attempt;
use super::service_account::MIRROR;
use crate::failure::Failure;
use crate::route::Target;

/// Labels that only administrators set, to tell nodes apart by.
const RESTRICTED_LABELS: &str = "node-restriction.kubernetes.io/";
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Whether a node may write this.
pub(super) fn admit(node: &str, attempt: &Attempt<'_>, object: &Value) -> Result<(), Failure> {
    let target = attempt.target;
    let name = match target.name() {
        "" => text(child(object, "metadata"), "name"),
        name => name,
    };
    let refused = |why: String| Err(Failure::forbidden(target.kind, name, &why));
    match target.kind.kind {
        "Node" if name != node => refused(format!("node {node:?} is not allowed to modify node {name:?}")),
        "Node" if attempt.is_main() => own_node(node, attempt, object).or_else(refused),
        "Lease" => own_lease(node, target.namespace(), name).or_else(refused),
        "Pod" => {
            let pod = attempt.stored.unwrap_or(object);
            let is_own = text(child(pod, "spec"), "nodeName") == node;
            let is_mirror = is_set(child(child(pod, "metadata"), "annotations"), MIRROR);
            match attempt.stored {
                None if !is_mirror => refused(format!(
                    "pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods"
                )),
                None if !is_own => refused(format!(
                    "node {node:?} can only create pods with spec.nodeName set to itself"
                )),
                Some(_) if !is_own => refused(format!(
                    "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
                )),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Whether a node may delete this.
pub(super) fn admit_delete(node: &str, index: &Index, target: &Target) -> Result<(), Failure> {
    let name = target.name();
    let refused = |why: String| Err(Failure::forbidden(target.kind, name, &why));
    match target.kind.kind {
        "Node" if name != node => refused(format!("node {node:?} is not allowed to delete node {name:?}")),
        "Lease" => own_lease(node, target.namespace(), name).or_else(refused),
        "Pod" => {
            let pod = index.get(&target.key());
            let pod = pod.and_then(|entry| serde_json::from_slice::<Value>(&entry.value).ok());
            match pod {
                Some(pod) if text(child(&pod, "spec"), "nodeName") != node => refused(format!(
                    "node {node:?} can only delete pods with spec.nodeName set to itself"
                )),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// A Node's agent does not say whom the Node takes, nor how administrators tell it apart.
fn own_node(node: &str, attempt: &Attempt<'_>, object: &Value) -> Result<(), String> {
    let restricted = |object: &Value| -> Vec<(String, String)> {
        entries(child(object, "metadata"), "labels")
            .filter(|(key, _)| key.starts_with(RESTRICTED_LABELS))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    };
    let after = restricted(object);
    let before = attempt.stored.map(restricted).unwrap_or_default();
    if after != before {
        let keys: Vec<&str> = after.iter().chain(&before).map(|(key, _)| key.as_str()).collect();
        return Err(format!(
            "node {node:?} is not allowed to modify labels: {}",
            keys.join(", ")
        ));
    }
    if let Some(stored) = attempt.stored
        && child(child(stored, "spec"), "taints") != child(child(object, "spec"), "taints")
    {
        return Err(format!("node {node:?} is not allowed to modify taints"));
    }
    Ok(())
}

fn own_lease(node: &str, namespace: &str, name: &str) -> Result<(), String> {
    if namespace != LEASE_NAMESPACE {
        return Err(format!(
            "can only access leases in the {LEASE_NAMESPACE:?} system namespace"
        ));
    }
    match name == node {
        true => Ok(()),
        false => Err("can only access node lease with the same name as the requesting node".to_owned()),
    }
}
