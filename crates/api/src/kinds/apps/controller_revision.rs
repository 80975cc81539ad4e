//! Rules of ControllerRevisions: immutable states of a StatefulSet or DaemonSet.

use serde_json::Value;

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm};
use crate::machinery::tree::{child, is_set};

/// Validates a new ControllerRevision.
pub fn validate_controller_revision(revision: &Value) -> FieldErrors {
    let mut errors = metadata::validate(revision, NameForm::DnsSubdomain, true);
    if !is_set(revision, "data") {
        errors.push(FieldError::required(&Path::new("data"), "data is mandatory"));
    } else if !child(revision, "data").is_object() {
        let detail = "data must be a valid JSON object";
        errors.push(FieldError::required(&Path::new("data"), detail));
    }
    validate_number(&mut errors, revision);
    errors
}

/// Validates an update. The data are immutable.
pub fn validate_controller_revision_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    validate_number(&mut errors, new);
    if new.get("data") != old.get("data") {
        let value = new.get("data").cloned().unwrap_or_default();
        errors.push(FieldError::invalid(
            &Path::new("data"),
            value,
            "field is immutable",
        ));
    }
    errors
}

fn validate_number(errors: &mut FieldErrors, revision: &Value) {
    let value = crate::machinery::tree::number(revision, "revision");
    if value < 0 {
        errors.push(FieldError::invalid(
            &Path::new("revision"),
            value,
            super::NOT_NEGATIVE,
        ));
    }
}
