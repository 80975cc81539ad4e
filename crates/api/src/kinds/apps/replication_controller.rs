//! Rules of ReplicationControllers (`v1`). Their selector is a map of labels.

use serde_json::{Value, json};

use super::template::{self, TemplateRules};
use super::{begin_generation, complete, status, validate_not_negative, validate_proportions};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm};
use crate::machinery::selector::LabelSelector;
use crate::machinery::tree::{child, entries, is_set, object_mut, omit_zero, set_or_clear};

const REPLICAS_DEFAULT: i64 = 1;

/// Sets defaults and drops empty fields. The labels of the template are the default of the selector and of the labels.
pub fn default_replication_controller_on_write(controller: &mut Value) {
    let has_template = is_set(child(controller, "spec"), "template");
    complete(controller, &["replicas"], &["minReadySeconds"]);
    status::complete(controller, &status::OF_REPLICA_SET);
    let fields = object_mut(controller, "spec");
    fields.entry("replicas").or_insert(json!(REPLICAS_DEFAULT));
    if !has_template {
        fields.remove("template");
        return;
    }
    let labels = child(child(child(controller, "spec"), "template"), "metadata")
        .get("labels")
        .cloned();
    let Some(labels) = labels.filter(|labels| labels.as_object().is_some_and(|map| !map.is_empty())) else {
        return;
    };
    for parent in ["spec", "metadata"] {
        let field = if parent == "spec" { "selector" } else { "labels" };
        object_mut(controller, parent);
        if let Some(parent) = controller.get_mut(parent) {
            omit_zero(parent, &[field]);
            if !is_set(parent, field) {
                set_or_clear(parent, field, Some(labels.clone()));
            }
        }
    }
}

/// Prepares an update: the status stays, and a changed spec increments the generation.
pub fn prepare_replication_controller_update(new: &mut Value, old: &Value) {
    set_or_clear(new, "status", old.get("status").cloned());
    if child(new, "spec") != child(old, "spec") {
        begin_generation(new, old);
    }
}

/// Validates a new ReplicationController.
pub fn validate_replication_controller(controller: &Value) -> FieldErrors {
    let mut errors = metadata::validate(controller, NameForm::DnsSubdomain, true);
    validate_spec(&mut errors, child(controller, "spec"));
    errors
}

/// Validates an update.
pub fn validate_replication_controller_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    validate_spec(&mut errors, child(new, "spec"));
    errors
}

/// Validates a status: counts are not negative and consistent with each other.
pub fn validate_replication_controller_status_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    let status = child(new, "status");
    const COUNTS: [&str; 5] = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
    ];
    validate_not_negative(&mut errors, status, &COUNTS, &Path::new("status"));
    let replica_counts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    validate_proportions(&mut errors, status, &replica_counts);
    errors
}

fn validate_spec(errors: &mut FieldErrors, spec: &Value) {
    let path = Path::new("spec");
    validate_not_negative(errors, spec, &["minReadySeconds", "replicas"], &path);
    let at = path.child("selector");
    metadata::validate_labels(errors, &at, entries(spec, "selector"));
    if entries(spec, "selector").next().is_none() {
        errors.push(FieldError::required(&at, ""));
    }
    if !is_set(spec, "template") {
        errors.push(FieldError::required(&path.child("template"), ""));
        return;
    }
    let selector = json!({ "matchLabels": child(spec, "selector") });
    // Faults of the selector are reported above.
    let selector = LabelSelector::from_object(&at, &selector).unwrap_or_default();
    let rules = TemplateRules::of("ReplicationController");
    let template = child(spec, "template");
    template::validate(errors, template, &selector, &path.child("template"), &rules);
}
