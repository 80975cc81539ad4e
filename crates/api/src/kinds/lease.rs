//! Defaults and validation of Leases.

use serde_json::{Value, json};

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm};
use crate::machinery::tree::{child, clear, is_set, number, set};

/// Drops empty fields. `strategy` and `preferredHolder` belong to coordinated leader election, which is off: upstream
/// drops them too.
pub fn default_on_write(lease: &mut Value) {
    metadata::omit_empty(lease);
    if !is_set(lease, "spec") {
        set(lease, "spec", json!({}));
    }
    if let Some(spec) = lease.get_mut("spec") {
        for field in ["strategy", "preferredHolder"] {
            clear(spec, field);
        }
    }
}

/// Validates a new Lease.
pub fn validate(lease: &Value) -> FieldErrors {
    let mut errors = metadata::validate(lease, NameForm::DnsSubdomain, true);
    validate_spec(&mut errors, lease);
    errors
}

/// Validates an update.
pub fn validate_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    validate_spec(&mut errors, new);
    errors
}

fn validate_spec(errors: &mut FieldErrors, lease: &Value) {
    let (spec, path) = (child(lease, "spec"), Path::new("spec"));
    let bounds = [
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ];
    for (field, least, fault) in bounds {
        let value = number(spec, field);
        if is_set(spec, field) && value < least {
            errors.push(FieldError::invalid(&path.child(field), value, fault));
        }
    }
}

#[cfg(test)]
mod tests;
