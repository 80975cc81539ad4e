//! Certificate signing requests.
//!
//! - Requests of joining nodes and of node components are approved ([`recognize()`], [`DenialReason`]).
//! - Approved requests are signed ([`Authority`]).
//! - Expired requests are deleted ([`retention()`]).
//!
//! The rules are upstream's, with additions. The name of an existing Node is protected. A component receives
//! only the user of its own node. Kubelet serving certificates are limited to the node's own addresses and
//! signed by a separate CA.

mod approval;
mod authority;
mod controller;
mod denial_reason;
mod node_ownership;
mod recognize;
mod retention;
mod run;

use std::sync::Arc;
use std::time::Duration;

use api::object::CertificateSigningRequest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub use authority::{Authority, AuthorityError, SignError};
pub use denial_reason::{DenialReason, ForeignAddresses, ReservedNames, joining_denial, serving_denial};
pub use recognize::{Purpose, RecognizedRequest, recognize};
pub use retention::{Retention, retention};
pub use run::run;

/// Validity of certificates unless the request has a shorter one (`--cluster-signing-duration`).
pub const SIGNING_DURATION: Duration = Duration::from_secs(365 * 24 * 3600);

/// Settings of the certificate controllers, each of which can be disabled.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Approve requests of nodes and their components.
    pub approves: bool,
    /// Delete expired requests.
    pub cleans: bool,
    /// The CA that signs approved requests; `None` disables signing.
    pub authority: Option<Arc<Authority>>,
    /// Names and addresses that no node may use.
    pub reserved: ReservedNames,
}

/// Parses the PKCS #10 request of an object.
fn request_of(
    object: &CertificateSigningRequest,
) -> Result<api::certificates::Request, api::certificates::RequestError> {
    api::certificates::Request::parse(&pem_of(object))
}

fn pem_of(object: &CertificateSigningRequest) -> Vec<u8> {
    STANDARD.decode(&object.spec.request).unwrap_or_default()
}

#[cfg(test)]
mod tests;
