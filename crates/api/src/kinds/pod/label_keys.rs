//! Label keys of affinity terms and topology spread constraints: a new Pod adds its own values to the selectors
//! (upstream's `applyMatchLabelKeysAndMismatchLabelKeys`).

use serde_json::{Map, Value, json};

use super::{PREFERRED_AFFINITY, REQUIRED_AFFINITY};
use crate::machinery::tree::{child, items, items_mut, set, texts};

/// Adds a requirement to the selectors for each of their label keys that the Pod has.
pub(super) fn apply(pod: &mut Value) {
    let labels = child(child(pod, "metadata"), "labels").as_object().cloned();
    let (Some(labels), Some(spec)) = (labels, pod.get_mut("spec")) else {
        return;
    };
    for constraint in items_mut(spec, "topologySpreadConstraints") {
        add_requirements(constraint, &labels);
    }
    let Some(affinity) = spec.get_mut("affinity") else {
        return;
    };
    for field in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = affinity.get_mut(field) else {
            continue;
        };
        for term in items_mut(terms, REQUIRED_AFFINITY) {
            add_requirements(term, &labels);
        }
        for preferred in items_mut(terms, PREFERRED_AFFINITY) {
            if let Some(term) = preferred.get_mut("podAffinityTerm") {
                add_requirements(term, &labels);
            }
        }
    }
}

/// Adds the requirements to the selector of one term or constraint. A term without a selector stays as it is.
fn add_requirements(term: &mut Value, labels: &Map<String, Value>) {
    let mut requirements = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in texts(term, field) {
            if let Some(value) = labels.get(key).and_then(Value::as_str) {
                requirements.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    let selector = term
        .get_mut("labelSelector")
        .filter(|selector| selector.is_object());
    let Some(selector) = selector.filter(|_| !requirements.is_empty()) else {
        return;
    };
    let mut expressions = items(selector, "matchExpressions").to_vec();
    expressions.append(&mut requirements);
    set(selector, "matchExpressions", expressions);
}
