//! Defaults, validation and warnings of Secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{DATA_BYTES_MAX, decoded_len, is_present, validate_immutable, validate_keys};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm};
use crate::machinery::tree::{child, clear, entries, object_mut, omit_zero, set, set_or_clear, text};

/// Default type.
const OPAQUE: &str = "Opaque";

/// Moves `stringData` into `data` and sets the default type.
pub fn default_secret_on_write(secret: &mut Value) {
    metadata::omit_empty(secret);
    let texts: Vec<(String, Value)> = entries(secret, "stringData")
        .map(|(key, value)| (key.to_owned(), STANDARD.encode(value).into()))
        .collect();
    clear(secret, "stringData");
    if !texts.is_empty() {
        object_mut(secret, "data").extend(texts);
    }
    omit_zero(secret, &["data", "type"]);
    if text(secret, "type").is_empty() {
        set(secret, "type", OPAQUE);
    }
}

/// Prepares an update: an absent type means the current one.
pub fn prepare_secret_update(new: &mut Value, old: &Value) {
    if text(new, "type").is_empty() {
        set_or_clear(new, "type", old.get("type").cloned());
    }
}

/// Returns a warning about a certificate or key of the type `kubernetes.io/tls` that is not in the PEM format. Upstream
/// also warns of a key that does not belong to the certificate.
pub fn secret_warnings(secret: &Value) -> Vec<String> {
    if text(secret, "type") != "kubernetes.io/tls" {
        return Vec::new();
    }
    let data = child(secret, "data");
    let has_pem = |key: &str| {
        let bytes = STANDARD.decode(text(data, key)).unwrap_or_default();
        let contents = String::from_utf8_lossy(&bytes);
        contents
            .find("-----BEGIN ")
            .is_some_and(|start| contents[start..].contains("-----END "))
    };
    let input = if !has_pem("tls.crt") {
        "certificate"
    } else if !has_pem("tls.key") {
        "key"
    } else {
        return Vec::new();
    };
    vec![format!("tls: failed to find any PEM data in {input} input")]
}

/// Validates a new Secret.
pub fn validate_secret(secret: &Value) -> FieldErrors {
    let mut errors = metadata::validate(secret, NameForm::DnsSubdomain, true);
    validate_values(&mut errors, secret);
    errors
}

/// Validates an update.
pub fn validate_secret_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    if text(new, "type") != text(old, "type") {
        let path = Path::new("type");
        errors.push(FieldError::invalid(
            &path,
            text(new, "type"),
            "field is immutable",
        ));
    }
    validate_immutable(&mut errors, new, old, &["data"]);
    errors.extend(validate_secret(new));
    errors
}

fn validate_values(errors: &mut FieldErrors, secret: &Value) {
    validate_keys(errors, secret, "data");
    let bytes: usize = entries(secret, "data").map(|(_, value)| decoded_len(value)).sum();
    if bytes > DATA_BYTES_MAX {
        errors.push(FieldError::too_long(&Path::new("data"), DATA_BYTES_MAX));
    }
    validate_type(errors, secret);
}

/// Validates the keys that a well-known type requires.
fn validate_type(errors: &mut FieldErrors, secret: &Value) {
    const SERVICE_ACCOUNT: &str = "kubernetes.io/service-account.name";
    let data = child(secret, "data");
    let path = Path::new("data");
    let needs: &[&str] = match text(secret, "type") {
        "kubernetes.io/service-account-token" => {
            let annotations = child(child(secret, "metadata"), "annotations");
            if text(annotations, SERVICE_ACCOUNT).is_empty() {
                let path = Path::new("metadata").child("annotations").key(SERVICE_ACCOUNT);
                errors.push(FieldError::required(&path, ""));
            }
            &[]
        }
        "kubernetes.io/basic-auth" => {
            if data.get("username").is_none() && data.get("password").is_none() {
                for key in ["username", "password"] {
                    errors.push(FieldError::required(&path.key(key), ""));
                }
            }
            &[]
        }
        "kubernetes.io/dockercfg" => return validate_json(errors, data, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => return validate_json(errors, data, ".dockerconfigjson"),
        "kubernetes.io/ssh-auth" => {
            if !is_present(data, "ssh-privatekey") {
                errors.push(FieldError::required(&path.key("ssh-privatekey"), ""));
            }
            &[]
        }
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        _ => &[],
    };
    for key in needs.iter().filter(|key| data.get(**key).is_none()) {
        errors.push(FieldError::required(&path.key(key), ""));
    }
}

fn validate_json(errors: &mut FieldErrors, data: &Value, key: &str) {
    let path = Path::new("data").key(key);
    if data.get(key).is_none() {
        errors.push(FieldError::required(&path, ""));
        return;
    }
    let bytes = STANDARD.decode(text(data, key)).unwrap_or_default();
    if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes) {
        errors.push(FieldError::invalid(&path, "<secret contents redacted>", error));
    }
}
