//! Rules of Pod templates.

use serde_json::Value;

use crate::kinds::pod;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata;
use crate::machinery::selector::LabelSelector;
use crate::machinery::tree::{child, is_set, items, object_mut, text};

/// Sets the defaults of the template in a spec.
pub(super) fn default_on_write(spec: &mut Value) {
    object_mut(spec, "template");
    let Some(template) = spec.get_mut("template") else {
        return;
    };
    metadata::omit_empty(template);
    object_mut(template, "spec");
    if let Some(spec) = template.get_mut("spec") {
        pod::default_spec(spec);
    }
}

/// Validates a Pod template, whose labels `selector` must match.
pub(super) fn validate(errors: &mut FieldErrors, template: &Value, selector: &LabelSelector, path: &Path) {
    let labels = child(child(template, "metadata"), "labels");
    if !selector.is_empty() && !selector.matches_object(template) {
        let at = path.child("metadata").child("labels");
        let fault = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(&at, labels.clone(), fault));
    }
    metadata::validate_template(errors, child(template, "metadata"), path);
    let (spec, path) = (child(template, "spec"), path.child("spec"));
    pod::validate_spec(errors, spec, &path);
    if !items(spec, "ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(&path.child("ephemeralContainers"), detail));
    }
    let policy = text(spec, "restartPolicy");
    if policy != "Always" {
        errors.push(FieldError::not_supported(
            &path.child("restartPolicy"),
            policy,
            &["Always"],
        ));
    }
    if is_set(spec, "activeDeadlineSeconds") {
        let detail = "activeDeadlineSeconds in ReplicaSet is not Supported";
        errors.push(FieldError::forbidden(
            &path.child("activeDeadlineSeconds"),
            detail,
        ));
    }
}
