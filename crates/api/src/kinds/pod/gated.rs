//! Updates of a Pod with scheduling gates, whose node selection may become narrower (upstream's
//! `validateNodeSelectorMutation` and `validateNodeAffinityMutation`).

use std::collections::HashSet;

use serde_json::Value;

use super::REQUIRED_AFFINITY;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::tree::{child, clear, entries, is_set, items, object_mut, set_or_clear, text};

const GATES: &str = "schedulingGates";
const TERMS: &str = "nodeSelectorTerms";

/// Returns true if the Pod has scheduling gates.
pub(super) fn is_gated(spec: &Value) -> bool {
    !items(spec, GATES).is_empty()
}

/// Rejects new scheduling gates.
pub(super) fn validate_gates(errors: &mut FieldErrors, after: &Value, before: &Value, path: &Path) {
    let known: HashSet<&str> = items(before, GATES)
        .iter()
        .map(|gate| text(gate, "name"))
        .collect();
    for (index, gate) in items(after, GATES).iter().enumerate() {
        let name = text(gate, "name");
        if !known.contains(name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            let path = path.child(GATES).index(index).child("name");
            errors.push(FieldError::forbidden(&path, detail));
        }
    }
}

/// Validates that node selector and required node affinity only become narrower.
pub(super) fn validate(errors: &mut FieldErrors, after: &Value, before: &Value, path: &Path) {
    let selector = child(after, "nodeSelector");
    let has = |key: &str, value: &str| selector.get(key).and_then(Value::as_str) == Some(value);
    if !entries(before, "nodeSelector").all(|(key, value)| has(key, value)) {
        let fault = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.push(FieldError::invalid(
            &path.child("nodeSelector"),
            selector.clone(),
            fault,
        ));
    }
    let required = |spec| child(child(child(spec, "affinity"), "nodeAffinity"), REQUIRED_AFFINITY);
    let path = path
        .child("affinity")
        .child("nodeAffinity")
        .child(REQUIRED_AFFINITY)
        .child(TERMS);
    validate_terms(
        errors,
        child(required(after), TERMS),
        items(required(before), TERMS),
        &path,
    );
}

fn validate_terms(errors: &mut FieldErrors, after: &Value, before: &[Value], path: &Path) {
    let terms: &[Value] = after.as_array().map_or(&[], Vec::as_slice);
    if before.is_empty() {
        return;
    }
    if terms.len() != before.len() {
        let fault = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.push(FieldError::invalid(path, after.clone(), fault));
        return;
    }
    for (index, (after, before)) in terms.iter().zip(before).enumerate() {
        if !is_extension(after, before) {
            let fault = "only additions are allowed (no mutations or deletions)";
            errors.push(FieldError::invalid(&path.index(index), after.clone(), fault));
        }
    }
}

/// Returns true if a term begins with all requirements of the earlier one, in their order. An empty term matches no
/// node, and has to stay empty.
fn is_extension(after: &Value, before: &Value) -> bool {
    const LISTS: [&str; 2] = ["matchExpressions", "matchFields"];
    let is_empty = |term: &Value| LISTS.iter().all(|list| items(term, list).is_empty());
    if is_empty(before) {
        return is_empty(after);
    }
    LISTS
        .iter()
        .all(|list| items(after, list).starts_with(items(before, list)))
}

/// Restores the fields of `spec` that a Pod with scheduling gates may change.
pub(super) fn restore(spec: &mut Value, before: &Value) {
    set_or_clear(spec, "nodeSelector", before.get("nodeSelector").cloned());
    let earlier = child(child(before, "affinity"), "nodeAffinity");
    if !is_set(spec, "affinity") && earlier.is_null() {
        return;
    }
    let affinity = object_mut(spec, "affinity");
    if earlier.is_null() {
        affinity.shift_remove("nodeAffinity");
    } else {
        affinity.insert("nodeAffinity".to_owned(), earlier.clone());
    }
    if affinity.is_empty() && !is_set(before, "affinity") {
        clear(spec, "affinity");
    }
}

#[cfg(test)]
mod tests;
