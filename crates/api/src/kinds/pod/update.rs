//! Preparation and validation of Pod updates.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::quality_of_service::quality_of_service;
use super::validate::{validate_spec, validate_tolerations as validate_each_toleration};
use super::{CONTAINER_LISTS, MIRROR_ANNOTATION, default_pod_on_write, gated, label_keys, status};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata;
use crate::machinery::tree::{
    child, clear, is_set, items, items_mut, number, object_mut, set, set_or_clear, text,
};

/// Prepares a new Pod: it is Pending, with generation 1.
pub fn prepare_pod_create(pod: &mut Value) {
    label_keys::apply(pod);
    let class = quality_of_service(child(pod, "spec"));
    set(pod, "status", json!({"phase": "Pending", "qosClass": class}));
    object_mut(pod, "metadata").insert("generation".to_owned(), json!(1));
}

/// Prepares an update: the status stays, and a change of the spec increments the generation.
pub fn prepare_pod_update(new: &mut Value, old: &Value) {
    set_or_clear(new, "status", old.get("status").cloned());
    set_next_generation(new, old);
}

/// Increments the generation if the spec has changed.
pub(super) fn set_next_generation(new: &mut Value, old: &Value) {
    let is_changed = has_spec_changed(child(new, "spec"), child(old, "spec"));
    let generation = number(child(old, "metadata"), "generation") + i64::from(is_changed);
    object_mut(new, "metadata").insert("generation".to_owned(), json!(generation));
}

/// Compares two specs. The choice of a node is not a change, as with upstream's subresource `binding`.
fn has_spec_changed(new: &Value, old: &Value) -> bool {
    const NODE: &str = "nodeName";
    let node = text(new, NODE);
    if new == old || node.is_empty() || !text(old, NODE).is_empty() {
        return new != old;
    }
    let mut bound = old.clone();
    set(&mut bound, NODE, node);
    *new != bound
}

/// Prepares an update of the status: spec and owners stay.
pub fn prepare_pod_status_update(new: &mut Value, old: &Value) {
    set_or_clear(new, "spec", old.get("spec").cloned());
    let owners = child(old, "metadata").get("ownerReferences").cloned();
    if let Some(metadata) = new.get_mut("metadata") {
        set_or_clear(metadata, "ownerReferences", owners);
    }
    let class = child(child(old, "status"), "qosClass").clone();
    object_mut(new, "status");
    if let Some(status) = new.get_mut("status")
        && !class.is_null()
        && !is_set(status, "qosClass")
    {
        set(status, "qosClass", class);
    }
}

/// Validates an update, which can change images and the seconds of tolerations, shorten deadlines, add tolerations, and
/// remove scheduling gates. The node can be set once, in place of the `binding` subresource, which is not served.
pub fn validate_pod_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    // An object of an earlier version may lack defaults.
    let mut old = old.clone();
    default_pod_on_write(&mut old);
    let (after, before) = (child(new, "spec"), child(&old, "spec"));
    let path = Path::new("spec");
    validate_spec(&mut errors, after, &path);
    errors.extend(validate_mirror_annotation(new, &old));
    for list in CONTAINER_LISTS {
        let (now, then) = (items(after, list), items(before, list));
        if now.len() != then.len() {
            errors.push(FieldError::forbidden(
                &path.child(list),
                "pod updates may not add or remove containers",
            ));
            return errors;
        }
        for (index, container) in now.iter().enumerate() {
            validate_image(
                &mut errors,
                text(container, "image"),
                &path.child(list).index(index).child("image"),
            );
        }
    }
    validate_deadline(&mut errors, after, before, &path);
    gated::validate_gates(&mut errors, after, before, &path);
    validate_tolerations(&mut errors, after, before, &path);
    let mut fixed = with_mutable_fields_of(before, after);
    if gated::is_gated(before) {
        gated::validate(&mut errors, after, before, &path);
        gated::restore(&mut fixed, before);
    }
    if fixed != *before {
        let detail = "pod updates may not change fields other than `spec.containers[*].image`,\
            `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
            existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
            previously negative)";
        errors.push(FieldError::forbidden(&path, detail));
    }
    errors
}

/// Validates an image that may have changed. As upstream, its faults appear twice.
fn validate_image(errors: &mut FieldErrors, image: &str, path: &Path) {
    if image.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if image.trim() != image {
        let fault = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(path, image, fault));
    }
}

/// Validates an update of the status.
pub fn validate_pod_status_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    errors.extend(validate_mirror_annotation(new, old));
    status::validate(&mut errors, new, old);
    errors
}

/// Checks that a Pod does not become or cease to be a mirror Pod (upstream's `ValidatePodSpecificAnnotationUpdates`).
pub(super) fn validate_mirror_annotation(new: &Value, old: &Value) -> Option<FieldError> {
    let annotation = |pod| child(child(child(pod, "metadata"), "annotations"), MIRROR_ANNOTATION);
    let (after, before) = (annotation(new), annotation(old));
    if after == before {
        return None;
    }
    let detail = if before.is_null() {
        "may not add mirror pod annotation"
    } else {
        "may not remove or update mirror pod annotation"
    };
    let path = Path::new("metadata").child("annotations").key(MIRROR_ANNOTATION);
    Some(FieldError::forbidden(&path, detail))
}

/// Validates the deadline, which can be set or shortened.
fn validate_deadline(errors: &mut FieldErrors, after: &Value, before: &Value, path: &Path) {
    const FIELD: &str = "activeDeadlineSeconds";
    let path = path.child(FIELD);
    let (now, then) = (number(after, FIELD), number(before, FIELD));
    if is_set(after, FIELD) && now < 0 {
        errors.push(FieldError::invalid(
            &path,
            now,
            "must be greater than or equal to 0",
        ));
    } else if is_set(after, FIELD) && is_set(before, FIELD) && now > then {
        let fault = "must be less than or equal to previous value";
        errors.push(FieldError::invalid(&path, now, fault));
    } else if is_set(before, FIELD) && !is_set(after, FIELD) {
        errors.push(FieldError::invalid(
            &path,
            Value::Null,
            "must not update from a positive integer to nil value",
        ));
    }
}

/// Validates that the update keeps all tolerations. Their `tolerationSeconds` may change, as upstream. Unchanged
/// tolerations stay valid: earlier versions accepted all.
fn validate_tolerations(errors: &mut FieldErrors, after: &Value, before: &Value, path: &Path) {
    const FIELD: &str = "tolerations";
    if child(after, FIELD) == child(before, FIELD) {
        return;
    }
    let now: HashSet<[&str; 4]> = items(after, FIELD).iter().map(without_seconds).collect();
    if items(before, FIELD)
        .iter()
        .any(|toleration| !now.contains(&without_seconds(toleration)))
    {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden(&path.child(FIELD), detail));
        return;
    }
    // As upstream: the faults of tolerations appear twice.
    validate_each_toleration(errors, after, &path.child(FIELD));
}

/// Returns the fields of a toleration that do not change.
fn without_seconds(toleration: &Value) -> [&str; 4] {
    ["key", "operator", "value", "effect"].map(|field| text(toleration, field))
}

/// Returns the new spec with the old values of all fields that may change.
fn with_mutable_fields_of(before: &Value, after: &Value) -> Value {
    let mut spec = after.clone();
    for list in CONTAINER_LISTS {
        for (container, then) in items_mut(&mut spec, list).iter_mut().zip(items(before, list)) {
            set_or_clear(container, "image", then.get("image").cloned());
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        set_or_clear(&mut spec, field, before.get(field).cloned());
    }
    if text(before, "nodeName").is_empty() {
        clear(&mut spec, "nodeName");
    }
    const GRACE: &str = "terminationGracePeriodSeconds";
    if number(before, GRACE) < 0 && number(after, GRACE) == 1 {
        set_or_clear(&mut spec, GRACE, before.get(GRACE).cloned());
    }
    spec
}
