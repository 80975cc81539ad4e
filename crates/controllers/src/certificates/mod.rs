//! Requests for certificates: those of machines that join and of their parts are approved by themselves
//! ([`recognise()`], [`Objection`]), what is approved is signed ([`Authority`]), and what is over is removed
//! ([`lapse()`]). Upstream's rules, and with them some of ours: a name that a Node has is not given away, parts get the
//! user of their own node alone, and agents are signed as servers for addresses that are theirs alone, by an authority of
//! their own.

mod authority;
mod claim;
mod decide;
mod keeper;
mod lapse;
mod objection;
mod recognise;
mod run;

use std::sync::Arc;
use std::time::Duration;

use api::object::CertificateSigningRequest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub use authority::{Authority, AuthorityError, SignError};
pub use lapse::{Lapse, lapse};
pub use objection::{Objection, Others, Reserved, object_to_joining, object_to_serving};
pub use recognise::{Purpose, Recognised, recognise};
pub use run::run;

/// How long certificates are good if nobody asks for less (`--cluster-signing-duration`).
pub const SIGNING_DURATION: Duration = Duration::from_secs(365 * 24 * 3600);

/// What the controllers of certificates do, each of which can be switched off.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Whether requests of machines and their parts are approved.
    pub approves: bool,
    /// Whether requests that are over are removed.
    pub cleans: bool,
    /// Who signs what is approved; nobody does if there is none.
    pub authority: Option<Arc<Authority>>,
    /// Names and addresses that no machine gets.
    pub reserved: Reserved,
}

/// The PKCS #10 request of an object.
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
