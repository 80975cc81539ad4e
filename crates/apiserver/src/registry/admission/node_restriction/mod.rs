//! NodeRestriction: the agent of a node writes only its own Node, its own Lease, and the Pods that run on it. A
//! compromised node therefore cannot change objects of other nodes. Rules and messages are upstream's
//! (`plugin/pkg/admission/noderestriction/admission.go`, 1.36). Portolan adds two rules. A node does not choose its Pod
//! ranges and does not uncordon itself. It adds no finalizers to its Node and its Pods.

mod certificate_requests;
mod nodes;
mod pods;
#[cfg(test)]
mod tests;
mod tokens;

use api::tree::{child, text, texts};
use serde_json::Value;
use store::Index;

use super::WriteAttempt;
use crate::failure::Failure;
use crate::request::route::Target;

pub(super) use tokens::admit_token_request;

/// The namespace of node Leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// A refused write of a node.
#[derive(Debug)]
enum Refusal {
    /// A rule forbids the write: status 403 with this message.
    Forbidden(String),
    /// An object that the rule needs cannot be read.
    Unreadable(Failure),
}

impl From<String> for Refusal {
    fn from(message: String) -> Refusal {
        Refusal::Forbidden(message)
    }
}

impl From<&str> for Refusal {
    fn from(message: &str) -> Refusal {
        Refusal::Forbidden(message.to_owned())
    }
}

impl Refusal {
    /// Converts a refused write of the object `name` to a failure.
    fn into_failure(self, target: &Target, name: &str) -> Failure {
        match self {
            Refusal::Forbidden(message) => Failure::forbidden(target.kind, name, &message),
            Refusal::Unreadable(failure) => failure,
        }
    }
}

/// Admits a write of `object` by a node.
pub(super) fn admit(
    node: &str,
    index: &Index,
    attempt: &WriteAttempt<'_>,
    object: &Value,
) -> Result<(), Failure> {
    let target = attempt.target;
    let name = match target.name() {
        "" => text(child(object, "metadata"), "name"),
        name => name,
    };
    let admitted = match target.kind.kind {
        _ if node.is_empty() => Err(unknown_node()),
        "Pod" => pods::admit(node, index, attempt, object),
        "Node" => nodes::admit(node, name, attempt.stored, object),
        "Lease" => admit_lease(node, target.namespace(), name),
        "CertificateSigningRequest" if attempt.stored.is_none() => certificate_requests::admit(node, object),
        _ => Ok(()),
    };
    admitted.map_err(|refusal| refusal.into_failure(target, name))
}

/// Admits a deletion of `target` by a node.
pub(super) fn admit_delete(node: &str, index: &Index, target: &Target) -> Result<(), Failure> {
    let name = target.name();
    let admitted = match target.kind.kind {
        _ if node.is_empty() => Err(unknown_node()),
        "Pod" => pods::admit_delete(node, index, target),
        "Node" => nodes::admit_name(node, name),
        "Lease" => admit_lease(node, target.namespace(), name),
        _ => Ok(()),
    };
    admitted.map_err(|refusal| refusal.into_failure(target, name))
}

fn admit_lease(node: &str, namespace: &str, name: &str) -> Result<(), Refusal> {
    if namespace != LEASE_NAMESPACE {
        let message = format!("can only access leases in the {LEASE_NAMESPACE:?} system namespace");
        return Err(message.into());
    }
    if name == node {
        Ok(())
    } else {
        Err("can only access node lease with the same name as the requesting node".into())
    }
}

fn unknown_node() -> Refusal {
    "could not determine node from user \"system:node:\"".into()
}

/// Returns the finalizers of an object.
fn finalizers(object: &Value) -> Vec<&str> {
    texts(child(object, "metadata"), "finalizers")
}

/// Reads the object `target` from the store.
fn read_stored(index: &Index, target: &Target) -> Result<Value, Refusal> {
    let not_found = || Refusal::Unreadable(Failure::not_found(target.kind, target.name()));
    let entry = index.get(&target.key()).ok_or_else(not_found)?;
    serde_json::from_slice(&entry.value).map_err(|error| {
        tracing::error!(key = %entry.key, %error, "stored object not valid JSON");
        Refusal::Unreadable(Failure::internal("a stored object cannot be read"))
    })
}
