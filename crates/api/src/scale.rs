//! Scales (`autoscaling/v1`): how many replicas an object has and is to have, in one form for all kinds that have them.

use serde_json::{Value, json};

use crate::field::{FieldError, FieldErrors, Path};
use crate::metadata::{self, NameForm};
use crate::selector::LabelSelector;
use crate::tree::{child, clear, number, object_mut, set, set_or_clear};

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
mod tests {
    use super::*;

    fn deployment() -> Value {
        json!({
            "metadata": {"name": "web", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"tier": "front", "app": "web"}}, "paused": true},
            "status": {"replicas": 2},
        })
    }

    #[test]
    fn a_scale_says_what_is_wanted_what_is_there_and_which_pods() {
        let scale = scale_of(&deployment());
        assert_eq!(
            scale,
            json!({
                "kind": "Scale", "apiVersion": "autoscaling/v1",
                "metadata": {"name": "web", "namespace": "n", "uid": "u", "resourceVersion": "7"},
                "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "app=web,tier=front"},
            })
        );
        assert!(validate(&scale).is_empty());
    }

    #[test]
    fn a_scale_changes_the_replicas_and_nothing_else() {
        let mut scale = scale_of(&deployment());
        scale["spec"]["replicas"] = json!(5);
        scale["metadata"]["resourceVersion"] = json!("6");
        scale["metadata"]["labels"] = json!({"c": "d"});
        let object = rescaled(&deployment(), &scale);
        let mut expected = deployment();
        expected["spec"]["replicas"] = json!(5);
        expected["metadata"]["resourceVersion"] = json!("6");
        assert_eq!(object, expected);
    }

    #[test]
    fn fewer_than_none_is_refused() {
        let mut scale = scale_of(&deployment());
        scale["spec"]["replicas"] = json!(-1);
        let errors = validate(&scale);
        assert_eq!(
            errors[0].to_string(),
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0"
        );
    }
}
