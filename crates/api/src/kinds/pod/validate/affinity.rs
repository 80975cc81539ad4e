//! Validation of affinity (upstream's `validateAffinity`): terms of node selectors, and terms about other Pods.

use std::collections::HashSet;

use serde_json::Value;

use crate::kinds::pod::{PREFERRED_AFFINITY, REQUIRED_AFFINITY};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::push_faults;
use crate::machinery::names;
use crate::machinery::selector::LabelSelector;
use crate::machinery::tree::{child, is_set, items, number, text, texts};

const NOT_AN_OPERATOR: &str = "not a valid selector operator";

/// Validates the affinity of a Pod at `path`.
pub(super) fn validate(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    let affinity = child(spec, "affinity");
    let nodes = "nodeAffinity";
    if is_set(affinity, nodes) {
        validate_nodes(errors, child(affinity, nodes), &path.child(nodes));
    }
    for pods in ["podAffinity", "podAntiAffinity"] {
        validate_pods(errors, child(affinity, pods), &path.child(pods));
    }
}

fn validate_nodes(errors: &mut FieldErrors, affinity: &Value, path: &Path) {
    if is_set(affinity, REQUIRED_AFFINITY) {
        let path = path.child(REQUIRED_AFFINITY).child("nodeSelectorTerms");
        let terms = items(child(affinity, REQUIRED_AFFINITY), "nodeSelectorTerms");
        if terms.is_empty() {
            let detail = "must have at least one node selector term";
            errors.push(FieldError::required(&path, detail));
        }
        for (index, term) in terms.iter().enumerate() {
            validate_node_term(errors, term, &path.index(index));
        }
    }
    let path = path.child(PREFERRED_AFFINITY);
    for (index, preferred) in items(affinity, PREFERRED_AFFINITY).iter().enumerate() {
        let path = path.index(index);
        validate_weight(errors, preferred, &path);
        validate_node_term(errors, child(preferred, "preference"), &path.child("preference"));
    }
}

fn validate_weight(errors: &mut FieldErrors, preferred: &Value, path: &Path) {
    let weight = number(preferred, "weight");
    if !(1..=100).contains(&weight) {
        let path = path.child("weight");
        errors.push(FieldError::invalid(&path, weight, "must be in the range 1-100"));
    }
}

fn validate_node_term(errors: &mut FieldErrors, term: &Value, path: &Path) {
    for (index, requirement) in items(term, "matchExpressions").iter().enumerate() {
        validate_label_requirement(errors, requirement, &path.child("matchExpressions").index(index));
    }
    for (index, requirement) in items(term, "matchFields").iter().enumerate() {
        validate_field_requirement(errors, requirement, &path.child("matchFields").index(index));
    }
}

/// Validates a requirement about the labels of nodes (upstream's `ValidateNodeSelectorRequirement`).
fn validate_label_requirement(errors: &mut FieldErrors, requirement: &Value, path: &Path) {
    let (key, operator) = (text(requirement, "key"), text(requirement, "operator"));
    let values = texts(requirement, "values");
    let at = path.child("values");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&at, detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&at, detail));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(FieldError::required(&at, detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.push(FieldError::invalid(
            &path.child("operator"),
            other,
            NOT_AN_OPERATOR,
        )),
    }
    push_faults(errors, &path.child("key"), key, names::qualified_name(key));
    for (index, value) in values.into_iter().enumerate() {
        push_faults(errors, &at.index(index), value, names::label_value(value));
    }
}

/// Validates a requirement about the fields of nodes (upstream's `ValidateNodeFieldSelectorRequirement`).
fn validate_field_requirement(errors: &mut FieldErrors, requirement: &Value, path: &Path) {
    let (key, operator) = (text(requirement, "key"), text(requirement, "operator"));
    let values = texts(requirement, "values");
    let at = path.child("values");
    if !matches!(operator, "In" | "NotIn") {
        let path = path.child("operator");
        errors.push(FieldError::invalid(&path, operator, NOT_AN_OPERATOR));
    } else if values.len() != 1 {
        let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
        errors.push(FieldError::required(&at, detail));
    }
    if key != "metadata.name" {
        let fault = "not a valid field selector key";
        errors.push(FieldError::invalid(&path.child("key"), key, fault));
        return;
    }
    for (index, value) in values.into_iter().enumerate() {
        push_faults(errors, &at.index(index), value, names::dns_subdomain(value));
    }
}

fn validate_pods(errors: &mut FieldErrors, affinity: &Value, path: &Path) {
    for (index, term) in items(affinity, REQUIRED_AFFINITY).iter().enumerate() {
        validate_pod_term(errors, term, &path.child(REQUIRED_AFFINITY).index(index));
    }
    for (index, preferred) in items(affinity, PREFERRED_AFFINITY).iter().enumerate() {
        let path = path.child(PREFERRED_AFFINITY).index(index);
        validate_weight(errors, preferred, &path);
        let field = "podAffinityTerm";
        validate_pod_term(errors, child(preferred, field), &path.child(field));
    }
}

fn validate_pod_term(errors: &mut FieldErrors, term: &Value, path: &Path) {
    for field in ["labelSelector", "namespaceSelector"] {
        validate_selector(errors, child(term, field), &path.child(field));
    }
    for namespace in texts(term, "namespaces") {
        // As upstream: the path has neither the name nor the index of the list.
        push_faults(
            errors,
            &path.child("namespace"),
            namespace,
            names::dns_label(namespace),
        );
    }
    validate_label_keys(errors, term, path);
    let (key, path) = (text(term, "topologyKey"), path.child("topologyKey"));
    if key.is_empty() {
        errors.push(FieldError::required(&path, "can not be empty"));
    }
    push_faults(errors, &path, key, names::qualified_name(key));
}

/// Validates a label selector that may be absent.
pub(super) fn validate_selector(errors: &mut FieldErrors, selector: &Value, path: &Path) {
    errors.extend(
        LabelSelector::from_object(path, selector)
            .err()
            .into_iter()
            .flatten(),
    );
}

fn validate_label_keys(errors: &mut FieldErrors, term: &Value, path: &Path) {
    let (matching, differing) = (texts(term, "matchLabelKeys"), texts(term, "mismatchLabelKeys"));
    for (field, keys) in [("matchLabelKeys", &matching), ("mismatchLabelKeys", &differing)] {
        let path = path.child(field);
        if !keys.is_empty() && !is_set(term, "labelSelector") {
            let detail = "must not be specified when labelSelector is not set";
            errors.push(FieldError::forbidden(&path, detail));
            continue;
        }
        for (index, key) in keys.iter().enumerate() {
            push_faults(errors, &path.index(index), key, names::qualified_name(key));
        }
    }
    let differing: HashSet<&str> = differing.into_iter().collect();
    let path = path.child("matchLabelKeys");
    for (index, key) in matching.iter().enumerate() {
        if differing.contains(key) {
            let fault = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.push(FieldError::invalid(&path.index(index), *key, fault));
        }
    }
}
