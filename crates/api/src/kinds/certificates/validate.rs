//! Validation of CertificateSigningRequests, as upstream: the spec is immutable, and a decision is made once, on a
//! path of its own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use x509_parser::pem::Pem;

use super::Request;
use super::condition::{APPROVED, DENIED, FAILED};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm};
use crate::machinery::names;
use crate::machinery::tree::{
    child, clear, is_set, items, number, object_mut, omit_zero, set_or_clear, text, texts,
};

/// Shortest lifetime that a request can specify.
const EXPIRATION_SECONDS_MIN: i64 = 600;
/// Valid usages of a certificate.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Drops empty fields.
pub fn default_on_write(object: &mut Value) {
    metadata::omit_empty(object);
    if let Some(spec) = object.get_mut("spec") {
        omit_zero(spec, &["username", "uid", "groups", "extra"]);
    }
    if let Some(status) = object.get_mut("status") {
        omit_zero(status, &["certificate", "conditions"]);
    }
}

/// Prepares a new request: its status is empty.
pub fn prepare_create(object: &mut Value) {
    clear(object, "status");
    object_mut(object, "status");
}

/// Prepares an update: spec and status stay.
pub fn prepare_update(new: &mut Value, old: &Value) {
    restore(new, old, "spec");
    restore(new, old, "status");
}

/// Prepares an update of the status: the spec stays.
pub fn prepare_status_update(new: &mut Value, old: &Value) {
    restore(new, old, "spec");
}

/// Prepares a decision: spec and certificate stay.
pub fn prepare_approval_update(new: &mut Value, old: &Value) {
    restore(new, old, "spec");
    let certificate = child(old, "status").get("certificate").cloned();
    let mut status = child(new, "status").clone();
    set_or_clear(&mut status, "certificate", certificate);
    set_or_clear(new, "status", Some(status));
}

fn restore(new: &mut Value, old: &Value, field: &str) {
    set_or_clear(new, field, old.get(field).cloned());
}

/// Validates a new request.
pub fn validate(object: &Value) -> FieldErrors {
    let mut errors = metadata::validate(object, NameForm::PathSegment, false);
    let (path, spec) = (Path::new("spec"), child(object, "spec"));
    let request = STANDARD.decode(text(spec, "request")).unwrap_or_default();
    if let Err(error) = Request::parse(&request) {
        errors.push(FieldError::invalid(
            &path.child("request"),
            text(spec, "request"),
            error,
        ));
    }
    validate_usages(&mut errors, &path.child("usages"), spec);
    validate_signer_name(&mut errors, &path.child("signerName"), text(spec, "signerName"));
    let seconds = number(spec, "expirationSeconds");
    if is_set(spec, "expirationSeconds") && seconds < EXPIRATION_SECONDS_MIN {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid(
            &path.child("expirationSeconds"),
            seconds,
            detail,
        ));
    }
    errors
}

fn validate_usages(errors: &mut FieldErrors, path: &Path, spec: &Value) {
    let usages = texts(spec, "usages");
    if usages.is_empty() {
        errors.push(FieldError::required(
            path,
            "usages must contain at least one item",
        ));
    }
    for (index, usage) in usages.iter().enumerate() {
        if !USAGES.contains(usage) {
            errors.push(FieldError::not_supported(&path.index(index), *usage, &USAGES));
        } else if usages.get(..index).is_some_and(|before| before.contains(usage)) {
            errors.push(FieldError::duplicate(&path.index(index), *usage));
        }
    }
}

/// Validates a name of the form `example.com/signer-name`.
fn validate_signer_name(errors: &mut FieldErrors, path: &Path, name: &str) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let is_whole = name.split_once('/').is_some_and(|(domain, signer)| {
        let is_domain = domain.contains('.') && names::dns_subdomain(domain).is_empty();
        is_domain && !signer.is_empty() && names::path_segment(signer).is_empty()
    });
    if !is_whole {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid(path, name, detail));
    }
}

/// Validates an update, which can change metadata only.
pub fn validate_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    validate_conditions(&mut errors, new);
    errors
}

/// Validates an update of the status, which cannot add a decision.
pub fn validate_status_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = validate_update(new, old);
    for kind in [APPROVED, DENIED] {
        if (condition(new, kind).is_none(), condition(old, kind).is_none()) == (false, true) {
            let detail = format!("updates may not add a condition of type {kind:?}");
            errors.push(FieldError::forbidden(&conditions_path(), detail));
        }
    }
    validate_removed(&mut errors, new, old, &[APPROVED, DENIED, FAILED]);
    let path = Path::new("status").child("certificate");
    let certificate = |object| text(child(object, "status"), "certificate").to_owned();
    let (before, after) = (certificate(old), certificate(new));
    if !before.is_empty() && before != after {
        let detail = "certificate field is immutable once set";
        errors.push(FieldError::invalid(&path, "<certificate data>", detail));
    } else if before != after && !is_certificate(&after) {
        let detail = "expected PEM blocks of type CERTIFICATE and nothing else";
        errors.push(FieldError::invalid(&path, "<certificate data>", detail));
    }
    errors
}

/// Validates a decision, which cannot be withdrawn.
pub fn validate_approval_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = validate_update(new, old);
    validate_removed(&mut errors, new, old, &[APPROVED, DENIED]);
    errors
}

fn validate_conditions(errors: &mut FieldErrors, object: &Value) {
    let path = conditions_path();
    let conditions = items(child(object, "status"), "conditions");
    for (index, condition) in conditions.iter().enumerate() {
        let (path, kind) = (path.index(index), text(condition, "type"));
        if kind.is_empty() {
            errors.push(FieldError::required(&path.child("type"), ""));
        }
        if conditions
            .iter()
            .take(index)
            .any(|other| text(other, "type") == kind)
        {
            errors.push(FieldError::duplicate(&path.child("type"), kind));
        }
        let status = text(condition, "status");
        let path = path.child("status");
        match (kind, status) {
            (_, "") => errors.push(FieldError::required(&path, "")),
            (APPROVED | DENIED | FAILED, "True") | (_, "True" | "False" | "Unknown") => {
                if matches!(kind, APPROVED | DENIED | FAILED) && status != "True" {
                    errors.push(FieldError::not_supported(&path, status, &["True"]));
                }
            }
            _ => errors.push(FieldError::not_supported(
                &path,
                status,
                &["False", "True", "Unknown"],
            )),
        }
    }
    if condition(object, APPROVED).is_some() && condition(object, DENIED).is_some() {
        let detail = "Approved and Denied conditions are mutually exclusive";
        errors.push(FieldError::invalid(&path, DENIED, detail));
    }
}

fn validate_removed(errors: &mut FieldErrors, new: &Value, old: &Value, kinds: &[&str]) {
    for kind in kinds {
        if condition(old, kind).is_some() && condition(new, kind).is_none() {
            let detail = format!("updates may not remove a condition of type {kind:?}");
            errors.push(FieldError::forbidden(&conditions_path(), detail));
        }
    }
}

fn condition<'o>(object: &'o Value, kind: &str) -> Option<&'o Value> {
    let conditions = items(child(object, "status"), "conditions");
    conditions
        .iter()
        .find(|condition| text(condition, "type") == kind)
}

fn conditions_path() -> Path {
    Path::new("status").child("conditions")
}

fn is_certificate(encoded: &str) -> bool {
    let pem = STANDARD.decode(encoded).unwrap_or_default();
    let mut blocks = Pem::iter_from_buffer(&pem).peekable();
    blocks.peek().is_some()
        && blocks
            .all(|block| block.is_ok_and(|block| block.label == "CERTIFICATE" && block.parse_x509().is_ok()))
}
