//! Amounts of the resources of Nodes and of containers.

use super::decode::quantity_in_thousandths;
use super::field::{FieldError, FieldErrors, Path};
use super::names;

/// Resources without a domain that have whole amounts (upstream's `IsIntegerResourceName`).
const WHOLE: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// Validates the amount of the resource `name` (upstream's `ValidateResourceQuantityValue`). Decoding rejects malformed
/// amounts before.
pub fn validate(errors: &mut FieldErrors, path: &Path, name: &str, amount: &str) {
    let thousandths = quantity_in_thousandths(amount).unwrap_or_default();
    if thousandths < 0 {
        let fault = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(path, amount, fault));
    }
    // An amount beyond the range of thousandths is clamped, and counts as whole.
    let is_whole = thousandths == i64::MAX || thousandths % 1000 == 0;
    if (WHOLE.contains(&name) || is_extended(name)) && !is_whole {
        errors.push(FieldError::invalid(path, amount, "must be an integer"));
    }
}

/// Returns true for a resource of Kubernetes itself (upstream's `IsNativeResource`).
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Returns true for a resource with a domain (upstream's `IsExtendedResourceName`).
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

#[cfg(test)]
mod tests;
