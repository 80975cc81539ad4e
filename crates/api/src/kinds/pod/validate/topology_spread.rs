//! Validation of topology spread constraints (upstream's `validateTopologySpreadConstraints`).

use std::collections::HashSet;

use serde_json::Value;

use super::affinity::validate_selector;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::push_faults;
use crate::machinery::names;
use crate::machinery::tree::{child, is_set, items, number, text, texts};

const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
const POLICIES: [&str; 2] = ["Honor", "Ignore"];
const POSITIVE: &str = "must be greater than zero";

/// Validates the topology spread constraints of a Pod at `path`.
pub(super) fn validate(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    let constraints = items(spec, "topologySpreadConstraints");
    // As upstream, whose fault is at the earlier one of two equal constraints.
    let mut later = HashSet::with_capacity(constraints.len());
    let mut is_repeated = vec![false; constraints.len()];
    for (constraint, is_repeated) in constraints.iter().zip(&mut is_repeated).rev() {
        *is_repeated = !later.insert(identity(constraint));
    }
    for (index, (constraint, is_repeated)) in constraints.iter().zip(is_repeated).enumerate() {
        let path = path.index(index);
        validate_constraint(errors, constraint, &path);
        if is_repeated {
            let (key, action) = identity(constraint);
            let path = path.child("{topologyKey, whenUnsatisfiable}");
            errors.push(FieldError::duplicate(&path, format!("{{{key}, {action}}}")));
        }
    }
}

/// Returns the fields that are unique in the list.
fn identity(constraint: &Value) -> (&str, &str) {
    (
        text(constraint, "topologyKey"),
        text(constraint, "whenUnsatisfiable"),
    )
}

fn validate_constraint(errors: &mut FieldErrors, constraint: &Value, path: &Path) {
    let skew = number(constraint, "maxSkew");
    if skew <= 0 {
        errors.push(FieldError::invalid(&path.child("maxSkew"), skew, POSITIVE));
    }
    let (key, action) = identity(constraint);
    if key.is_empty() {
        errors.push(FieldError::required(
            &path.child("topologyKey"),
            "can not be empty",
        ));
    }
    if !ACTIONS.contains(&action) {
        let path = path.child("whenUnsatisfiable");
        errors.push(FieldError::not_supported(&path, action, &ACTIONS));
    }
    validate_domains(errors, constraint, action, &path.child("minDomains"));
    for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        let policy = text(constraint, field);
        if is_set(constraint, field) && !POLICIES.contains(&policy) {
            errors.push(FieldError::not_supported(&path.child(field), policy, &POLICIES));
        }
    }
    let keys = texts(constraint, "matchLabelKeys");
    let at = path.child("matchLabelKeys");
    if !keys.is_empty() && !is_set(constraint, "labelSelector") {
        let detail = "must not be specified when labelSelector is not set";
        errors.push(FieldError::forbidden(&at, detail));
    } else {
        for (index, key) in keys.into_iter().enumerate() {
            push_faults(errors, &at.index(index), key, names::qualified_name(key));
        }
    }
    let field = "labelSelector";
    validate_selector(errors, child(constraint, field), &path.child(field));
}

fn validate_domains(errors: &mut FieldErrors, constraint: &Value, action: &str, path: &Path) {
    if !is_set(constraint, "minDomains") {
        return;
    }
    let domains = number(constraint, "minDomains");
    if domains <= 0 {
        errors.push(FieldError::invalid(path, domains, POSITIVE));
    }
    if action != "DoNotSchedule" {
        let fault = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        errors.push(FieldError::invalid(path, domains, fault));
    }
}
