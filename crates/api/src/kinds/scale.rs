//! The subresource `scale` (`autoscaling/v1`): desired and actual replicas in one form for all scalable kinds.

use serde_json::{Value, json};

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm};
use crate::machinery::selector::format_object;
use crate::machinery::tree::{child, clear, number, object_mut, set, set_or_clear, text};

/// Returns the scale of an object.
pub fn scale_of(object: &Value) -> Value {
    let (spec, status) = (child(object, "spec"), child(object, "status"));
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        set_or_clear(
            &mut metadata,
            field,
            child(object, "metadata").get(field).cloned(),
        );
    }
    let mut scale_spec = json!({});
    if number(spec, "replicas") != 0 {
        set(&mut scale_spec, "replicas", number(spec, "replicas"));
    }
    let mut scale_status = json!({"replicas": number(status, "replicas")});
    // Stored selectors are valid.
    let selector = child(spec, "selector").clone();
    // The selector of a ReplicationController is a map of labels.
    let selector = match text(object, "kind") {
        "ReplicationController" => json!({ "matchLabels": selector }),
        _ => selector,
    };
    let selector = format_object(&selector);
    if !selector.is_empty() {
        set(&mut scale_status, "selector", selector);
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": scale_spec,
        "status": scale_status,
    })
}

/// Returns the object with the replicas of a scale, and with the resourceVersion and UID of the scale as
/// preconditions. Other fields of the scale are ignored.
pub fn with_scale(object: &Value, scale: &Value) -> Value {
    let mut object = object.clone();
    object_mut(&mut object, "spec").insert(
        "replicas".to_owned(),
        number(child(scale, "spec"), "replicas").into(),
    );
    let preconditions = child(scale, "metadata");
    object_mut(&mut object, "metadata");
    if let Some(metadata) = object.get_mut("metadata") {
        set_or_clear(
            metadata,
            "resourceVersion",
            preconditions.get("resourceVersion").cloned(),
        );
        if preconditions.get("uid").is_some() {
            set_or_clear(metadata, "uid", preconditions.get("uid").cloned());
        }
        // Managed fields belong to the object, not to its scale.
        clear(metadata, "managedFields");
    }
    object
}

/// Validates a scale.
pub fn validate(scale: &Value) -> FieldErrors {
    let mut errors = metadata::validate(scale, NameForm::DnsSubdomain, true);
    let replicas = number(child(scale, "spec"), "replicas");
    if replicas < 0 {
        let path = Path::new("spec").child("replicas");
        let message = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path, replicas, message));
    }
    errors
}

#[cfg(test)]
mod tests;
