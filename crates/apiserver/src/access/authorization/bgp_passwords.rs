//! Secrets with passwords of BGP sessions, which announcers may read. Only `get` is permitted.
//!
//! A Secret qualifies if it is in the namespace kube-system, has the type `kubernetes.io/basic-auth`, and a BGPPeer
//! references it. A BGPPeer may select nodes by labels, which the agent of a node can change. The announcers of all
//! nodes may therefore read these Secrets.

use api::certificates::{NodeIdentity, NodePart};
use api::kind::{self, Kind, PORTOLAN_GROUP};
use api::rbac::Action;
use api::tree::{child, text};
use serde_json::Value;
use store::Index;

use super::Attributes;
use crate::access::authentication::Identity;

#[cfg(test)]
mod tests;

/// Users of announcers that do not belong to a joined node: run by an administrator, or as Pods.
const OTHER_ANNOUNCERS: [&str; 3] = [
    "system:portolan-load-balancer",
    "system:serviceaccount:kube-system:portolan-announcer",
    "system:serviceaccount:kube-system:portolan-load-balancer",
];
/// Namespace of the Secrets.
const NAMESPACE: &str = "kube-system";
/// Type of the Secrets.
const SECRET_TYPE: &str = "kubernetes.io/basic-auth";
/// Maximum number of BGPPeers that one decision reads.
const PEERS_MAX: usize = 1_000;

/// Returns true if the user is an announcer and reads a password of a BGP session.
pub(super) fn is_allowed(attributes: &Attributes<'_>, index: &Index) -> bool {
    let Action::Resource {
        verb: "get",
        group: "",
        resource: "secrets",
        subresource: "",
        name,
    } = attributes.action
    else {
        return false;
    };
    attributes.namespace == NAMESPACE
        && !name.is_empty()
        && is_announcer(attributes.user)
        && is_referenced(index, name)
        && has_type(index, name)
}

fn is_announcer(user: &Identity) -> bool {
    let identity = NodeIdentity::of(&user.user, &user.groups);
    identity.is_some_and(|identity| identity.part == Some(NodePart::Announcer))
        || OTHER_ANNOUNCERS.contains(&user.user.as_str())
}

fn is_referenced(index: &Index, name: &str) -> bool {
    let Some(peers) = kind::find(PORTOLAN_GROUP, "v1alpha1", "bgppeers") else {
        return false;
    };
    match index.list(&peers.store_prefix(None), None, None, Some(PEERS_MAX)) {
        Ok(listing) => listing
            .entries
            .iter()
            .any(|entry| secret_of(&entry.value).as_deref() == Some(name)),
        Err(error) => {
            tracing::error!(%error, "BGPPeers not read; announcers may read no Secrets");
            false
        }
    }
}

/// Returns the name of the Secret of a BGPPeer.
fn secret_of(peer: &[u8]) -> Option<String> {
    let peer: Value = serde_json::from_slice(peer).ok()?;
    let reference = child(child(&peer, "spec"), "passwordSecret");
    let name = text(reference, "name");
    let namespace = text(reference, "namespace");
    let is_valid = !name.is_empty() && (namespace.is_empty() || namespace == NAMESPACE);
    is_valid.then(|| name.to_owned())
}

fn has_type(index: &Index, name: &str) -> bool {
    let secret = || {
        let key = kind::find("", "v1", "secrets").map(|kind: &Kind| kind.store_key(NAMESPACE, name))?;
        let entry = index.get(&key)?;
        serde_json::from_slice::<Value>(&entry.value).ok()
    };
    secret().is_some_and(|secret| text(&secret, "type") == SECRET_TYPE)
}
