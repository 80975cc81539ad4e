//! CertificateSigningRequests (`certificates.k8s.io/v1`): signers, validation, and the content of requests.

mod identity;
mod request;
mod validate;

pub use identity::{Incarnation, NodeIdentity, NodeNameError, NodePart, check_node_name};
pub use request::{Request, RequestError};
pub use validate::{
    default_on_write, prepare_approval_update, prepare_create, prepare_status_update, prepare_update,
    validate, validate_approval_update, validate_status_update, validate_update,
};

/// API group.
pub const GROUP: &str = "certificates.k8s.io";
/// Signer of API clients.
pub const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Signer of the client certificates of agents.
pub const NODE_CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Signer of the serving certificates of agents.
pub const NODE_SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";
/// Signer of the client certificates of other node components ([`NodePart`]).
pub const NODE_PART_SIGNER: &str = "portolan.dev/node-part";
/// Group of the agents.
pub const NODES: &str = "system:nodes";
/// Prefix of the agents' user names.
pub const NODE_USER_PREFIX: &str = "system:node:";
/// Seconds between the start of a certificate's validity and its signing, so that clients with a slow clock accept
/// the certificate (upstream's value). The start of the validity thus states the time of signing.
pub const BACKDATE_SECONDS: i64 = 5 * 60;
/// Annotation of a Node: certificates that were issued before this RFC 3339 time are invalid. The signer sets it when
/// a node joins; without it all certificates of an existing Node are valid.
pub const CERTIFICATES_SINCE: &str = "portolan.dev/certificates-since";
/// Annotation of a Node whose certificates carry its [`Incarnation`]; the value is the UID of the request with which
/// the node joined. Also the `extra` key of users whose certificate carries an incarnation, with the incarnation.
pub const INCARNATION: &str = "portolan.dev/incarnation";
/// Prefix of the organizational unit that carries a Node's [`Incarnation`] in a certificate.
pub const INCARNATION_UNIT_PREFIX: &str = "portolan:incarnation:";
/// Annotation of a Node with the UID of the request with which it joined.
pub const JOINED_BY_REQUEST: &str = "portolan.dev/joined-by-request";
/// `extra` key of a bootstrap token's user: the Node that the token may replace, as name and [`Incarnation`].
pub const REPLACES_NODE: &str = "portolan.dev/replaces-node";

/// Condition types of requests.
pub mod condition {
    /// Decision to sign.
    pub const APPROVED: &str = "Approved";
    /// Decision not to sign.
    pub const DENIED: &str = "Denied";
    /// Failure of the signer.
    pub const FAILED: &str = "Failed";
}

#[cfg(test)]
mod tests;
