//! Rows of CertificateSigningRequests.

use jiff::SignedDuration;
use serde_json::Value;

use super::{AGE, Layout, NAME, NONE, age, column, human_duration, name, or};
use crate::kinds::certificates::condition::{APPROVED, DENIED, FAILED};
use crate::machinery::tree::{child, items, number, text};

pub(super) static REQUEST: Layout = Layout {
    columns: &[
        NAME,
        AGE,
        column("SignerName", "Who is to sign."),
        column("Requestor", "Who asked for it."),
        column("RequestedDuration", "How long the certificate is to be good."),
        column("Condition", "What was decided, and whether it was signed."),
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

/// `Approved,Issued` and the like.
fn condition(request: &Value) -> String {
    let status = child(request, "status");
    let has = |kind: &str| {
        let conditions = items(status, "conditions");
        conditions.iter().any(|condition| text(condition, "type") == kind)
    };
    let mut words = vec![match (has(DENIED), has(APPROVED)) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }];
    if has(FAILED) {
        words.push("Failed");
    }
    if !text(status, "certificate").is_empty() {
        words.push("Issued");
    }
    words.join(",")
}
