//! Tables of CertificateSigningRequests.

use jiff::SignedDuration;
use serde_json::Value;

use super::{AGE, Layout, NAME, NONE, age, column, human_duration, name, or};
use crate::kinds::certificates::condition::{APPROVED, DENIED, FAILED};
use crate::machinery::tree::{child, items, number, text};

pub(super) static REQUEST: Layout = Layout {
    columns: &[
        NAME,
        AGE,
        column("SignerName", "Requested signer."),
        column("Requestor", "User that created the request."),
        column("RequestedDuration", "Requested lifetime of the certificate."),
        column("Condition", "Approval and issuance."),
    ],
    cells: |request, now| {
        let spec = child(request, "spec");
        vec![
            name(request),
            age::of(request, now),
            text(spec, "signerName").into(),
            or(text(spec, "username"), NONE).into(),
            duration(spec).into(),
            condition(request).into(),
        ]
    },
};

fn duration(spec: &Value) -> String {
    match number(spec, "expirationSeconds") {
        seconds @ 1.. => human_duration(SignedDuration::from_secs(seconds)),
        _ => NONE.to_owned(),
    }
}

/// Returns the condition, for example `Approved,Issued`.
fn condition(request: &Value) -> String {
    let status = child(request, "status");
    let has = |kind: &str| {
        let conditions = items(status, "conditions");
        conditions.iter().any(|condition| text(condition, "type") == kind)
    };
    let mut parts = vec![match (has(DENIED), has(APPROVED)) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }];
    if has(FAILED) {
        parts.push("Failed");
    }
    if !text(status, "certificate").is_empty() {
        parts.push("Issued");
    }
    parts.join(",")
}
