//! CertificateSigningRequests (`certificates.k8s.io/v1`): who signs what, the rules of the object, and what a request
//! asks for.

mod request;
mod validate;

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
/// Signs the other parts of a joined machine, such as its proxy and its DNS server, as clients of the API.
pub const NODE_PART_SIGNER: &str = "portolan.dev/node-part";
/// Whom [`NODE_PART_SIGNER`] signs: users that can only read what their part needs.
pub const NODE_PARTS: [&str; 4] = [
    "system:kube-proxy",
    "system:kube-dns",
    "system:portolan-announcer",
    "system:portolan-edge",
];
/// The group of the agents of nodes.
pub const NODES: &str = "system:nodes";
/// What the names of the agents of nodes begin with.
pub const NODE_USER_PREFIX: &str = "system:node:";

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
