//! Validation of resource quantities (upstream's `ValidateResourceQuantityValue`).

use serde_json::Value;

use crate::machinery::decode::quantity_in_thousandths;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::tree::{child, entries};

/// Validates the limits and requests of a container at `path`.
pub(super) fn validate_container(errors: &mut FieldErrors, container: &Value, path: &Path) {
    let (resources, path) = (child(container, "resources"), path.child("resources"));
    for field in ["limits", "requests"] {
        validate(errors, resources, field, &path.child(field));
    }
}

/// Validates the overhead of a Pod whose spec is at `path`.
pub(super) fn validate_overhead(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    // As upstream, which validates the overhead as the limits of a container.
    validate(errors, spec, "overhead", &path.child("overhead").child("limits"));
}

/// Rejects negative quantities. The scheduler subtracts the sum of all Pods from the capacity of their Node.
fn validate(errors: &mut FieldErrors, tree: &Value, field: &str, path: &Path) {
    for (name, quantity) in entries(tree, field) {
        if quantity_in_thousandths(quantity).is_some_and(|amount| amount < 0) {
            let fault = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(&path.key(name), quantity, fault));
        }
    }
}
