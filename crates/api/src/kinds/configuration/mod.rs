//! Rules of ConfigMaps, Secrets and ServiceAccounts.

mod config_map;
mod secret;
mod service_account;

pub use config_map::{default_config_map_on_write, validate_config_map, validate_config_map_update};
pub use secret::{
    default_secret_on_write, prepare_secret_update, secret_warnings, validate_secret, validate_secret_update,
};
pub use service_account::{
    default_service_account_on_write, prepare_service_account, service_account_creation_warnings,
    service_account_update_warnings,
};

use serde_json::{Map, Value};

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::names;
use crate::machinery::tree::{child, flag_if_set, text};

/// Maximum number of bytes of all values together.
const DATA_BYTES_MAX: usize = 1 << 20;

/// Validates the keys at `field`.
fn validate_keys(errors: &mut FieldErrors, object: &Value, field: &str) {
    let path = Path::new(field);
    for key in child(object, field)
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
    {
        for fault in names::config_key(key) {
            errors.push(FieldError::invalid(&path.key(key), key.as_str(), fault));
        }
    }
}

/// Reports changes of an immutable object: of `immutable`, and of its values.
fn validate_immutable(errors: &mut FieldErrors, new: &Value, old: &Value, fields: &[&str]) {
    const FAULT: &str = "field is immutable when `immutable` is set";
    if flag_if_set(old, "immutable") != Some(true) {
        return;
    }
    if flag_if_set(new, "immutable") != Some(true) {
        errors.push(FieldError::forbidden(&Path::new("immutable"), FAULT));
    }
    // Older servers stored empty maps.
    let is_empty = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
    for field in fields {
        let (after, before) = (child(new, field), child(old, field));
        if after != before && !(is_empty(after) && is_empty(before)) {
            errors.push(FieldError::forbidden(&Path::new(field), FAULT));
        }
    }
}

/// Returns the length of base64 text after decoding. The text was validated before.
fn decoded_len(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

/// Returns true if a value exists and is not empty.
fn is_present(data: &Value, key: &str) -> bool {
    !text(data, key).is_empty()
}

#[cfg(test)]
mod tests;
