//! Rules of the workloads of `apps/v1`, and of ReplicationControllers (`v1`): defaults, preparation of writes, and
//! validation, as upstream.

mod controller_revision;
mod daemon_set;
mod deployment;
mod int_or_percent;
mod replica_set;
mod replication_controller;
mod stateful_set;
pub(crate) mod status;
pub(crate) mod template;
mod warnings;

pub use controller_revision::{validate_controller_revision, validate_controller_revision_update};
pub use daemon_set::{
    default_daemon_set_on_write, prepare_daemon_set_create, prepare_daemon_set_update, validate_daemon_set,
    validate_daemon_set_status_update, validate_daemon_set_update,
};

pub use deployment::{
    default_deployment_on_write, prepare_deployment_status_update, prepare_deployment_update,
    validate_deployment, validate_deployment_status_update, validate_deployment_update,
};
pub use int_or_percent::IntOrPercent;
pub use replica_set::{
    default_replica_set_on_write, prepare_replica_set_create, prepare_replica_set_update,
    validate_replica_set, validate_replica_set_status_update, validate_replica_set_update,
};
pub use replication_controller::{
    default_replication_controller_on_write, prepare_replication_controller_update,
    validate_replication_controller, validate_replication_controller_status_update,
    validate_replication_controller_update,
};
pub use stateful_set::{
    default_stateful_set_on_write, prepare_stateful_set_create, prepare_stateful_set_update,
    validate_stateful_set, validate_stateful_set_status_update, validate_stateful_set_update,
};

pub use warnings::{
    daemon_set_creation_warnings, stateful_set_creation_warnings, stateful_set_update_warnings,
    workload_creation_warnings, workload_update_warnings,
};

use serde_json::{Value, json};
use template::TemplateRules;

pub use crate::kinds::condition::complete_conditions;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata;
use crate::machinery::selector::LabelSelector;
use crate::machinery::tree::{child, entries, is_set, items, number, object_mut, omit_null, omit_zero, set};

/// API group of the kinds.
pub const GROUP: &str = "apps";

/// Message for a negative number.
pub(crate) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// Prepares a new object: its status is empty.
pub fn prepare_create(object: &mut Value) {
    set(object, "status", json!({}));
}

/// Drops `nullable` spec fields that are `null` and `zeroable` ones that are zero, and sets the defaults of the
/// template.
pub(crate) fn complete(object: &mut Value, nullable: &[&str], zeroable: &[&str]) {
    metadata::omit_empty(object);
    object_mut(object, "spec");
    object_mut(object, "status");
    if let Some(spec) = object.get_mut("spec") {
        omit_null(spec, nullable);
        omit_zero(spec, zeroable);
        template::default_on_write(spec);
    }
    status::omit_empty(object);
    complete_conditions(object, &["lastTransitionTime"]);
}

/// Increments the generation.
pub(crate) fn begin_generation(new: &mut Value, old: &Value) {
    let generation = number(child(old, "metadata"), "generation");
    object_mut(new, "metadata").insert("generation".to_owned(), json!(generation + 1));
}

/// Reports negative numbers among the fields of `tree`.
pub(crate) fn validate_not_negative(errors: &mut FieldErrors, tree: &Value, fields: &[&str], path: &Path) {
    for field in fields {
        let value = number(tree, field);
        if value < 0 {
            errors.push(FieldError::invalid(&path.child(field), value, NOT_NEGATIVE));
        }
    }
}

/// Reports inconsistent counts of a status: `parts` are at most all replicas, and available replicas at most the
/// ready ones.
fn validate_proportions(errors: &mut FieldErrors, status: &Value, parts: &[&str]) {
    validate_at_most(errors, status, parts, "replicas", "status.replicas");
    validate_at_most(
        errors,
        status,
        &["availableReplicas"],
        "readyReplicas",
        "readyReplicas",
    );
}

/// Reports counts of a status that are above the field `bound`, which the message calls `bound_name`.
fn validate_at_most(
    errors: &mut FieldErrors,
    status: &Value,
    fields: &[&str],
    bound: &str,
    bound_name: &str,
) {
    for field in fields {
        let value = number(status, field);
        if value > number(status, bound) {
            let path = Path::new("status").child(field);
            errors.push(FieldError::invalid(
                &path,
                value,
                format!("cannot be greater than {bound_name}"),
            ));
        }
    }
}

/// Validates `spec.selector` and the template, whose labels it must match.
fn validate_selector_and_template(
    errors: &mut FieldErrors,
    spec: &Value,
    path: &Path,
    rules: &TemplateRules,
) {
    let at = path.child("selector");
    let selector = child(spec, "selector");
    if !is_set(spec, "selector") {
        // As upstream: for DaemonSets, the error about the labels of the template is the only one.
        if rules.kind != "DaemonSet" {
            errors.push(FieldError::required(&at, ""));
        }
    } else if entries(selector, "matchLabels").next().is_none()
        && items(selector, "matchExpressions").is_empty()
    {
        let kind = rules.kind.to_lowercase();
        // Upstream has one message for Deployments and ReplicaSets.
        let kind = if kind == "replicaset" { "deployment" } else { &kind };
        let fault = format!("empty selector is invalid for {kind}");
        errors.push(FieldError::invalid(&at, selector.clone(), fault));
    }
    match LabelSelector::from_object(&at, selector) {
        Ok(selector) => {
            if !is_set(spec, "selector") {
                template::reject_labels(errors, child(spec, "template"), &path.child("template"));
            }
            template::validate(
                errors,
                child(spec, "template"),
                &selector,
                &path.child("template"),
                rules,
            );
        }
        Err(faults) => {
            errors.extend(faults);
            errors.push(FieldError::invalid(
                &at,
                selector.clone(),
                "invalid label selector",
            ));
        }
    }
}

/// Reports a changed selector, which is immutable in `apps/v1`.
pub(crate) fn validate_same_selector(errors: &mut FieldErrors, new: &Value, old: &Value) {
    let selector = |object| child(child(object, "spec"), "selector").clone();
    if selector(new) != selector(old) {
        let path = Path::new("spec").child("selector");
        errors.push(FieldError::invalid(&path, selector(new), "field is immutable"));
    }
}

#[cfg(test)]
mod tests;
