//! DenyServiceExternalIPs (API-52): a user who can choose external IPs can intercept traffic to them.

use api::tree::{child, text, texts};
use serde_json::Value;

use super::WriteAttempt;
use crate::failure::Failure;

/// Refuses external IPs that the Service does not have yet.
pub(super) fn admit(attempt: &WriteAttempt<'_>, service: &Value) -> Result<(), Failure> {
    let before = attempt
        .stored
        .map(|stored| texts(child(stored, "spec"), "externalIPs"))
        .unwrap_or_default();
    let after = texts(child(service, "spec"), "externalIPs");
    if after.iter().all(|address| before.contains(address)) {
        return Ok(());
    }
    let name = text(child(service, "metadata"), "name");
    let message = "Use of external IPs is denied by admission control";
    Err(Failure::forbidden(attempt.target.kind, name, message))
}
