//! CertificateSigningRequests (`certificates.k8s.io/v1`): who signs what, the rules of the object, and what a request
//! asks for.

mod identity;
mod request;
mod validate;

pub use identity::{Incarnation, NodeIdentity, NodeNameError, NodePart, check_node_name};
pub use request::{Request, RequestError};
pub use validate::{
    default_on_write, prepare_approval_update, prepare_create, prepare_status_update, prepare_update,
    validate, validate_approval_update, validate_status_update, validate_update,
};

/// The API group.
pub const GROUP: &str = "certificates.k8s.io";
/// Signs any client of the API.
pub const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Signs the agents of nodes as clients of the API.
pub const NODE_CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Signs the agents of nodes as servers.
pub const NODE_SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";
/// Signs the other parts of a machine ([`NodePart`]) as clients of the API.
pub const NODE_PART_SIGNER: &str = "portolan.dev/node-part";
/// The group of the agents of nodes.
pub const NODES: &str = "system:nodes";
/// What the names of the agents of nodes begin with.
pub const NODE_USER_PREFIX: &str = "system:node:";
/// How many seconds before it is signed the validity of a certificate of the signers begins, so that a clock that is
/// somewhat behind does not matter (upstream's). Its beginning tells when it was signed.
pub const BACKDATE_SECONDS: i64 = 5 * 60;
/// The annotation of a Node that says from which time on certificates of its machine count (RFC 3339). The signer writes it
/// when a machine joins; without it every certificate of an existing Node counts.
pub const CERTIFICATES_SINCE: &str = "portolan.dev/certificates-since";
/// The annotation of a Node whose machine joined with certificates that carry the Node's [`Incarnation`]; its value is the
/// UID of the request with which the machine joined. Also the `extra` of users whose certificate carries one, with the
/// incarnation.
pub const INCARNATION: &str = "portolan.dev/incarnation";
/// The beginning of the organizational unit by which a certificate carries the [`Incarnation`] of its Node.
pub const INCARNATION_UNIT_PREFIX: &str = "portolan:incarnation:";
/// The annotation of a Node that names the UID of the request with which its machine joined.
pub const JOINED_BY_REQUEST: &str = "portolan.dev/joined-by-request";
/// The `extra` of a bootstrap token's user that names the Node whose machine the token may replace: its name and its
/// [`Incarnation`].
pub const REPLACES_NODE: &str = "portolan.dev/replaces-node";

/// The types of conditions that mean something.
pub mod condition {
    /// Somebody has decided that the request is to be signed.
    pub const APPROVED: &str = "Approved";
    /// Somebody has decided that it is not.
    pub const DENIED: &str = "Denied";
    /// The signer could not sign it.
    pub const FAILED: &str = "Failed";
}

#[cfg(test)]
mod tests;
