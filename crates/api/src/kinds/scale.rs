//! Scales (`autoscaling/v1`): how many replicas an object has and is to have, in one form for all kinds that have them.

use serde_json::{Value, json};

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm};
use crate::machinery::selector::LabelSelector;
use crate::machinery::tree::{child, clear, number, object_mut, set, set_or_clear};

/// The scale of an object.
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
    let mut wanted = json!({});
    if number(spec, "replicas") != 0 {
        set(&mut wanted, "replicas", number(spec, "replicas"));
    }
    let mut counted = json!({"replicas": number(status, "replicas")});
    // What is stored has been checked.
    if let Ok(selector) = LabelSelector::from_object(&Path::new("selector"), child(spec, "selector"))
        && !selector.is_empty()
    {
        set(&mut counted, "selector", selector.to_string());
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": wanted,
        "status": counted,
    })
}

/// An object with the replicas of a scale, as the version and incarnation that the scale means; nothing else of the
/// scale counts.
pub fn rescaled(object: &Value, scale: &Value) -> Value {
    let mut object = object.clone();
    object_mut(&mut object, "spec").insert(
        "replicas".to_owned(),
        number(child(scale, "spec"), "replicas").into(),
    );
    let meant = child(scale, "metadata");
    object_mut(&mut object, "metadata");
    if let Some(metadata) = object.get_mut("metadata") {
        set_or_clear(metadata, "resourceVersion", meant.get("resourceVersion").cloned());
        if meant.get("uid").is_some() {
            set_or_clear(metadata, "uid", meant.get("uid").cloned());
        }
        // Who owns which field is said by the object, not by its scale.
        clear(metadata, "managedFields");
    }
    object
}

/// The rules for a scale.
pub fn validate(scale: &Value) -> FieldErrors {
    let mut errors = metadata::validate(scale, NameForm::DnsSubdomain, true);
    let replicas = number(child(scale, "spec"), "replicas");
    if replicas < 0 {
        let path = Path::new("spec").child("replicas");
        let fault = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path, replicas, fault));
    }
    errors
}

#[cfg(test)]
mod tests;
