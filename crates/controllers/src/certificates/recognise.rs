//! Which requests are approved without a person, if the one who asks may have them. Pure.

use std::net::IpAddr;

use api::certificates::{
    NODE_CLIENT_SIGNER, NODE_PART_SIGNER, NODE_SERVING_SIGNER, NODE_USER_PREFIX, NODES, NodeIdentity,
    NodePart, Request,
};
use api::object::CertificateSigningRequest;

use super::request_of;

/// A request that may be approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recognised {
    /// The Node that it is for.
    pub node: String,
    /// What it is for.
    pub purpose: Purpose,
}

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A machine that joins: whoever asks is somebody else than the Node.
    Joining,
    /// A Node's own next certificate.
    Renewing,
    /// The endpoint of a Node's agent, at these addresses.
    Serving(Vec<IpAddr>),
    /// Another part of a Node's machine.
    Part(NodePart),
}

impl Purpose {
    /// The subresource of `certificatesigningrequests` that whoever asks must be allowed to `create`.
    pub fn permission(&self) -> &'static str {
        match self {
            Self::Joining => "nodeclient",
            Self::Renewing => "selfnodeclient",
            Self::Serving(_) => "selfnodeserver",
            Self::Part(_) => "nodepart",
        }
    }

    /// What the approval says; upstream's words where it has them.
    pub fn message(&self) -> &'static str {
        match self {
            Self::Joining => "Auto approving kubelet client certificate after SubjectAccessReview.",
            Self::Renewing => "Auto approving self kubelet client certificate after SubjectAccessReview.",
            Self::Serving(_) => "Auto approving self kubelet serving certificate after SubjectAccessReview.",
            Self::Part(_) => "Auto approving the certificate of a node's part after SubjectAccessReview.",
        }
    }
}

/// What a request is, if it is of a machine: the right names, usages and groups, and nothing more. Others are for
/// people to decide about.
pub fn recognise(object: &CertificateSigningRequest) -> Option<Recognised> {
    let request = request_of(object).ok()?;
    match object.spec.signer_name.as_str() {
        NODE_CLIENT_SIGNER => client(object, &request),
        NODE_SERVING_SIGNER => serving(object, &request),
        NODE_PART_SIGNER => part(object, &request),
        _ => None,
    }
}

fn client(object: &CertificateSigningRequest, request: &Request) -> Option<Recognised> {
    let node = request.node_name()?.to_owned();
    if !request.has_no_names() || !are_usages_of_client(&object.spec.usages) {
        return None;
    }
    let purpose = match requester(object) {
        Some(requester) if requester == node => Purpose::Renewing,
        // The agent of another Node asks for a name that is not its own.
        Some(_) => return None,
        None => Purpose::Joining,
    };
    Some(Recognised { node, purpose })
}

fn serving(object: &CertificateSigningRequest, request: &Request) -> Option<Recognised> {
    let node = request.node_name()?;
    let is_own = requester(object) == Some(node);
    let names_itself = request.dns_names.iter().all(|name| name == node);
    let has_names = !request.has_other_names && !request.has_no_names();
    let fits = is_own && names_itself && has_names && are_usages_of_server(&object.spec.usages);
    fits.then(|| Recognised {
        node: node.to_owned(),
        purpose: Purpose::Serving(request.ip_addresses.clone()),
    })
}

/// An agent asks for the parts of its own machine and for nobody else's.
fn part(object: &CertificateSigningRequest, request: &Request) -> Option<Recognised> {
    let (node, part) = part_of(request, &object.spec.usages)?;
    (requester(object) == Some(node.as_str())).then_some(Recognised {
        node,
        purpose: Purpose::Part(part),
    })
}

/// The Node and the part that a request names which the signer of nodes' parts signs.
pub(super) fn part_of(request: &Request, usages: &[String]) -> Option<(String, NodePart)> {
    let identity = NodeIdentity::of(request.common_name()?, &request.organizations)?;
    let has_one_group = request.organizations.len() == 1;
    let fits = has_one_group && request.has_no_names() && are_usages_of_client(usages);
    Some((identity.node_name.to_owned(), identity.part.filter(|_| fits)?))
}

/// The Node that a machine joins as which is not that Node yet; `None` for every other request.
pub(super) fn joining_node(object: &CertificateSigningRequest) -> Option<String> {
    if object.spec.signer_name != NODE_CLIENT_SIGNER {
        return None;
    }
    let request = request_of(object).ok()?;
    let node = request.node_name()?;
    (requester(object) != Some(node)).then(|| node.to_owned())
}

/// The Node whose agent asks.
pub(super) fn requester(object: &CertificateSigningRequest) -> Option<&str> {
    let name = object.spec.username.strip_prefix(NODE_USER_PREFIX)?;
    object
        .spec
        .groups
        .iter()
        .any(|group| group == NODES)
        .then_some(name)
}

/// Whether a certificate with these usages is a client's and nothing else: signatures, with RSA keys the exchange of
/// keys too.
pub(super) fn are_usages_of_client(usages: &[String]) -> bool {
    are_usages(usages, "client auth")
}

/// The same for a server's.
pub(super) fn are_usages_of_server(usages: &[String]) -> bool {
    are_usages(usages, "server auth")
}

fn are_usages(usages: &[String], purpose: &str) -> bool {
    let has = |usage: &str| usages.iter().any(|given| given == usage);
    let known = ["digital signature", "key encipherment", purpose];
    has("digital signature") && has(purpose) && usages.iter().all(|usage| known.contains(&usage.as_str()))
}
