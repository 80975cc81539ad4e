//! When a request is over. Pure; upstream's times.

use api::certificates::condition::{APPROVED, DENIED, FAILED};
use api::object::CertificateSigningRequest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use x509_parser::pem::Pem;

/// A request that was decided about, and answered if it was approved, is of no use any more after this time.
const DECIDED_LIFE: SignedDuration = SignedDuration::from_hours(1);
/// One that nobody decides about is given up after this time.
const PENDING_LIFE: SignedDuration = SignedDuration::from_hours(24);

/// How long a request is to stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lapse {
    /// It is over.
    Over,
    /// It is not, for so long.
    In(SignedDuration),
}

/// How long a request is to stay, as it is at a time.
pub fn lapse(object: &CertificateSigningRequest, now: Timestamp) -> Lapse {
    let read = |text: Option<&String>| text.and_then(|text| text.parse::<Timestamp>().ok());
    let created = read(object.metadata.creation_timestamp.as_ref()).unwrap_or(now);
    let decided = [DENIED, FAILED, APPROVED]
        .into_iter()
        .find_map(|kind| object.condition(kind))
        .map(|condition| read(condition.last_update_time.as_ref()).unwrap_or(created));
    let is_answered = !object.status.certificate.is_empty()
        || object.condition(DENIED).is_some()
        || object.condition(FAILED).is_some();
    let mut end = match decided {
        Some(time) if is_answered => time + DECIDED_LIFE,
        _ => created + PENDING_LIFE,
    };
    if let Some(expiry) = expiry(&object.status.certificate) {
        end = end.min(expiry);
    }
    match now.duration_until(end) {
        left if left.is_positive() => Lapse::In(left),
        _ => Lapse::Over,
    }
}

/// When the certificate ends.
fn expiry(certificate: &str) -> Option<Timestamp> {
    let pem = STANDARD.decode(certificate).ok()?;
    let block = Pem::iter_from_buffer(&pem).next()?.ok()?;
    let not_after = block.parse_x509().ok()?.validity().not_after.timestamp();
    Timestamp::from_second(not_after).ok()
}
