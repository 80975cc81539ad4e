//! Defaults and validation of ConfigMaps.

use serde_json::Value;

use super::{DATA_BYTES_MAX, decoded_len, validate_immutable, validate_keys};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm};
use crate::machinery::tree::{child, entries, omit_zero};

/// Drops empty fields.
pub fn default_config_map_on_write(config_map: &mut Value) {
    metadata::omit_empty(config_map);
    omit_zero(config_map, &["data", "binaryData"]);
}

/// Validates a new ConfigMap.
pub fn validate_config_map(object: &Value) -> FieldErrors {
    let mut errors = metadata::validate(object, NameForm::DnsSubdomain, true);
    validate_values(&mut errors, object);
    errors
}

/// Validates an update.
pub fn validate_config_map_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    validate_immutable(&mut errors, new, old, &["data", "binaryData"]);
    errors.extend(validate_config_map(new));
    errors
}

fn validate_values(errors: &mut FieldErrors, object: &Value) {
    validate_keys(errors, object, "data");
    let binary = child(object, "binaryData");
    for (key, _) in entries(object, "data").filter(|(key, _)| binary.get(key).is_some()) {
        let path = Path::new("data").key(key);
        errors.push(FieldError::invalid(
            &path,
            key,
            "duplicate of key present in binaryData",
        ));
    }
    validate_keys(errors, object, "binaryData");
    let texts: usize = entries(object, "data").map(|(_, value)| value.len()).sum();
    let bytes: usize = entries(object, "binaryData")
        .map(|(_, value)| decoded_len(value))
        .sum();
    if texts + bytes > DATA_BYTES_MAX {
        errors.push(FieldError::too_long(&Path::new("[]"), DATA_BYTES_MAX));
    }
}
