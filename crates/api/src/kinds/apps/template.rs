//! Defaults and validation of Pod templates.

use serde_json::Value;

use crate::kinds::pod;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata;
use crate::machinery::selector::LabelSelector;
use crate::machinery::tree::{child, is_set, items, object_mut, text};

/// Sets the defaults of the template in a spec.
pub(crate) fn default_on_write(spec: &mut Value) {
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

/// Rules of a template that depend on the kind of its controller.
pub(crate) struct TemplateRules {
    /// Kind in messages.
    pub(crate) kind: &'static str,
    /// Restart policies of the Pods.
    pub(crate) restart_policies: &'static [&'static str],
    /// True if the Pods may have a deadline.
    pub(crate) has_deadline: bool,
}

impl TemplateRules {
    /// Returns the rules of a kind whose Pods run until they are deleted.
    pub(super) fn of(kind: &'static str) -> Self {
        Self {
            kind,
            restart_policies: &["Always"],
            has_deadline: false,
        }
    }
}

/// Reports the labels of a template that the selector does not match. An absent selector matches none.
pub(crate) fn reject_labels(errors: &mut FieldErrors, template: &Value, path: &Path) {
    let labels = child(child(template, "metadata"), "labels");
    let at = path.child("metadata").child("labels");
    let fault = "`selector` does not match template `labels`";
    errors.push(FieldError::invalid(&at, labels.clone(), fault));
}

/// Validates a Pod template, whose labels `selector` must match.
pub(crate) fn validate(
    errors: &mut FieldErrors,
    template: &Value,
    selector: &LabelSelector,
    path: &Path,
    rules: &TemplateRules,
) {
    if !selector.is_empty() && !selector.matches_object(template) {
        reject_labels(errors, template, path);
    }
    metadata::validate_template(errors, child(template, "metadata"), path);
    let (spec, path) = (child(template, "spec"), path.child("spec"));
    pod::validate_spec(errors, spec, &path);
    if !items(spec, "ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(&path.child("ephemeralContainers"), detail));
    }
    let policy = text(spec, "restartPolicy");
    if policy == "Always" && !rules.restart_policies.contains(&policy) {
        let valid: Vec<String> = rules
            .restart_policies
            .iter()
            .map(|policy| format!("{policy:?}"))
            .collect();
        let detail = format!("valid values: {}", valid.join(", "));
        errors.push(FieldError::required(&path.child("restartPolicy"), detail));
    } else if !rules.restart_policies.contains(&policy) {
        errors.push(FieldError::not_supported(
            &path.child("restartPolicy"),
            policy,
            rules.restart_policies,
        ));
    }
    if is_set(spec, "activeDeadlineSeconds") && !rules.has_deadline {
        let detail = format!("activeDeadlineSeconds in {} is not Supported", rules.kind);
        errors.push(FieldError::forbidden(
            &path.child("activeDeadlineSeconds"),
            detail,
        ));
    }
}
