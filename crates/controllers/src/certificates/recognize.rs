//! Recognition of requests that are approved automatically if the sender has the permission. Pure.

use std::net::IpAddr;

use api::certificates::{
    NODE_CLIENT_SIGNER, NODE_PART_SIGNER, NODE_SERVING_SIGNER, NODE_USER_PREFIX, NODES, NodeIdentity,
    NodePart, Request,
};
use api::object::CertificateSigningRequest;

use super::request_of;

/// A request that may be approved automatically.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecognizedRequest {
    /// Name of the Node.
    pub node: String,
    /// Purpose of the certificate.
    pub purpose: Purpose,
}

/// The purpose of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Client certificate of a joining node; the sender is not the Node itself.
    Joining,
    /// Renewal of a Node's own client certificate.
    Renewing,
    /// Kubelet serving certificate for these addresses.
    Serving(Vec<IpAddr>),
    /// Client certificate of another component of the node.
    Part(NodePart),
}

impl Purpose {
    /// Returns the subresource of `certificatesigningrequests` that the sender must be allowed to `create`.
    pub fn permission(&self) -> &'static str {
        match self {
            Self::Joining => "nodeclient",
            Self::Renewing => "selfnodeclient",
            Self::Serving(_) => "selfnodeserver",
            Self::Part(_) => "nodepart",
        }
    }

    /// Returns the message of the approval; upstream's text where it has one.
    pub fn message(&self) -> &'static str {
        match self {
            Self::Joining => "Auto approving kubelet client certificate after SubjectAccessReview.",
            Self::Renewing => "Auto approving self kubelet client certificate after SubjectAccessReview.",
            Self::Serving(_) => "Auto approving self kubelet serving certificate after SubjectAccessReview.",
            Self::Part(_) => "Auto approving the certificate of a node's part after SubjectAccessReview.",
        }
    }
}

/// Recognizes a request of a node: exactly the expected names, usages and groups. Other requests need a
/// manual approval.
pub fn recognize(object: &CertificateSigningRequest) -> Option<RecognizedRequest> {
    let request = request_of(object).ok()?;
    match object.spec.signer_name.as_str() {
        NODE_CLIENT_SIGNER => client(object, &request),
        NODE_SERVING_SIGNER => serving(object, &request),
        NODE_PART_SIGNER => part(object, &request),
        _ => None,
    }
}

fn client(object: &CertificateSigningRequest, request: &Request) -> Option<RecognizedRequest> {
    let node = request.node_name()?.to_owned();
    if !request.has_no_names() || !are_usages_of_client(&object.spec.usages) {
        return None;
    }
    let purpose = match requester(object) {
        Some(requester) if requester == node => Purpose::Renewing,
        // An agent may not request the name of another Node.
        Some(_) => return None,
        None => Purpose::Joining,
    };
    Some(RecognizedRequest { node, purpose })
}

fn serving(object: &CertificateSigningRequest, request: &Request) -> Option<RecognizedRequest> {
    let node = request.node_name()?;
    let is_own = requester(object) == Some(node);
    let names_itself = request.dns_names.iter().all(|name| name == node);
    let has_names = !request.has_other_names && !request.has_no_names();
    let fits = is_own && names_itself && has_names && are_usages_of_server(&object.spec.usages);
    fits.then(|| RecognizedRequest {
        node: node.to_owned(),
        purpose: Purpose::Serving(request.ip_addresses.clone()),
    })
}

/// An agent may request certificates only for components of its own node.
fn part(object: &CertificateSigningRequest, request: &Request) -> Option<RecognizedRequest> {
    let (node, part) = part_of(request, &object.spec.usages)?;
    (requester(object) == Some(node.as_str())).then_some(RecognizedRequest {
        node,
        purpose: Purpose::Part(part),
    })
}

/// Returns the Node and the component if the request follows the rules of the node component signer.
pub(super) fn part_of(request: &Request, usages: &[String]) -> Option<(String, NodePart)> {
    let identity = NodeIdentity::of(request.common_name()?, &request.organizations)?;
    let has_one_group = request.organizations.len() == 1;
    let fits = has_one_group && request.has_no_names() && are_usages_of_client(usages);
    Some((identity.node_name.to_owned(), identity.part.filter(|_| fits)?))
}

/// Returns the name of the joining node; `None` for every other request.
pub(super) fn joining_node(object: &CertificateSigningRequest) -> Option<String> {
    if object.spec.signer_name != NODE_CLIENT_SIGNER {
        return None;
    }
    let request = request_of(object).ok()?;
    let node = request.node_name()?;
    (requester(object) != Some(node)).then(|| node.to_owned())
}

/// Returns the Node whose agent sent the request.
pub(super) fn requester(object: &CertificateSigningRequest) -> Option<&str> {
    let name = object.spec.username.strip_prefix(NODE_USER_PREFIX)?;
    object
        .spec
        .groups
        .iter()
        .any(|group| group == NODES)
        .then_some(name)
}

/// Returns true if the usages are exactly those of a client certificate: digital signature, client auth, and
/// optionally key encipherment.
pub(super) fn are_usages_of_client(usages: &[String]) -> bool {
    are_usages(usages, "client auth")
}

/// Returns true if the usages are exactly those of a server certificate.
pub(super) fn are_usages_of_server(usages: &[String]) -> bool {
    are_usages(usages, "server auth")
}

fn are_usages(usages: &[String], purpose: &str) -> bool {
    let has = |usage: &str| usages.iter().any(|given| given == usage);
    let known = ["digital signature", "key encipherment", purpose];
    has("digital signature") && has(purpose) && usages.iter().all(|usage| known.contains(&usage.as_str()))
}
