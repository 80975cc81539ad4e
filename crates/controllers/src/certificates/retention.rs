//! Retention of certificate signing requests, with upstream's periods. Pure.

use api::certificates::condition::{APPROVED, DENIED, FAILED};
use api::object::CertificateSigningRequest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use x509_parser::pem::Pem;

/// Retention of a request after its approval and signature, denial or failure.
const DECIDED_RETENTION: SignedDuration = SignedDuration::from_hours(1);
/// Retention of a request that is pending, or approved and not signed.
const PENDING_RETENTION: SignedDuration = SignedDuration::from_hours(24);

/// The remaining retention of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// The request can be deleted.
    Expired,
    /// The request is retained for this duration.
    Remaining(SignedDuration),
}

/// Returns the remaining retention of a request at `now`.
pub fn retention(object: &CertificateSigningRequest, now: Timestamp) -> Retention {
    let read = |text: Option<&String>| text.and_then(|text| text.parse::<Timestamp>().ok());
    let created = read(object.metadata.creation_timestamp.as_ref()).unwrap_or(now);
    let decided = [DENIED, FAILED, APPROVED]
        .into_iter()
        .find_map(|kind| object.condition(kind))
        .map(|condition| read(condition.last_update_time.as_ref()).unwrap_or(created));
    let is_answered = !object.status.certificate.is_empty()
        || object.condition(DENIED).is_some()
        || object.condition(FAILED).is_some();
    let (since, retained) = match decided {
        Some(time) if is_answered => (time, DECIDED_RETENTION),
        _ => (created, PENDING_RETENTION),
    };
    // Approvers choose the times of conditions.
    let mut end = since.checked_add(retained).unwrap_or(Timestamp::MAX);
    if let Some(expiry) = expiry(&object.status.certificate) {
        end = end.min(expiry);
    }
    match now.duration_until(end) {
        left if left.is_positive() => Retention::Remaining(left),
        _ => Retention::Expired,
    }
}

/// Returns the end of the certificate's validity.
fn expiry(certificate: &str) -> Option<Timestamp> {
    let pem = STANDARD.decode(certificate).ok()?;
    let block = Pem::iter_from_buffer(&pem).next()?.ok()?;
    let not_after = block.parse_x509().ok()?.validity().not_after.timestamp();
    Timestamp::from_second(not_after).ok()
}
