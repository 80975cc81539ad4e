//! Validation of the annotations of Pods (upstream's `ValidatePodSpecificAnnotations`).

use serde_json::Value;

use crate::kinds::pod::MIRROR_ANNOTATION;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::tree::{child, text, text_if_set};

/// Cost of a deletion: a ReplicaSet deletes its cheapest Pods first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Validates the annotations of a Pod.
pub(super) fn validate(errors: &mut FieldErrors, pod: &Value) {
    let annotations = child(child(pod, "metadata"), "annotations");
    let path = Path::new("metadata").child("annotations");
    if let Some(value) = text_if_set(annotations, MIRROR_ANNOTATION)
        && text(child(pod, "spec"), "nodeName").is_empty()
    {
        let fault = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(FieldError::invalid(&path.key(MIRROR_ANNOTATION), value, fault));
    }
    if let Some(cost) = text_if_set(annotations, DELETION_COST)
        && !is_canonical_i32(cost)
    {
        let fault = "must be a 32bit integer";
        errors.push(FieldError::invalid(&path.key(DELETION_COST), cost, fault));
    }
}

/// Returns true for a number of 32 bits without a plus sign or leading zeros.
fn is_canonical_i32(text: &str) -> bool {
    text.parse::<i32>().is_ok_and(|number| number.to_string() == text)
}
