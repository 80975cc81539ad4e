//! The `scale` subresource, which represents an object by its replica count. On other paths, these functions
//! return their input.

use api::kind::{SCALE, SCALE_KIND};
use api::scale;
use api::tree::{child, clear};
use bytes::Bytes;
use serde_json::{Value, json};

use super::render;
use crate::failure::Failure;
use crate::request::route::Target;

fn is_scale(target: &Target) -> bool {
    target.subresource == Some(SCALE)
}

/// Converts a stored object to the representation of the path.
pub(super) fn to_representation(object: Value, target: &Target) -> Value {
    if is_scale(target) {
        scale::scale_of(&object)
    } else {
        object
    }
}

/// Converts a request body to the object that it changes.
pub(super) fn from_representation(body: Value, stored: &Value, target: &Target) -> Result<Value, Failure> {
    if !is_scale(target) {
        return Ok(body);
    }
    let errors = scale::validate(&body);
    if errors.is_empty() {
        Ok(scale::with_scale(stored, &body))
    } else {
        Err(Failure::invalid(&SCALE_KIND, target.name(), &errors))
    }
}

/// Converts an apply configuration to one of the scaled object.
pub(super) fn configuration(body: Value, target: &Target) -> Result<Value, Failure> {
    if !is_scale(target) {
        return Ok(body);
    }
    let mut metadata = child(&body, "metadata").clone();
    for field in ["labels", "annotations", "ownerReferences", "finalizers"] {
        clear(&mut metadata, field);
    }
    let mut configuration = json!({
        "apiVersion": target.kind.api_version(),
        "kind": target.kind.kind,
        "metadata": metadata,
    });
    if let Some(replicas) = child(&body, "spec").get("replicas").and_then(Value::as_i64) {
        if replicas < 0 {
            let errors = scale::validate(&body);
            return Err(Failure::invalid(&SCALE_KIND, target.name(), &errors));
        }
        configuration["spec"] = json!({ "replicas": replicas });
    }
    Ok(configuration)
}

/// Converts a response body to the representation of the path.
pub(crate) fn scale_response(object: Bytes, target: &Target) -> Result<Bytes, Failure> {
    if !is_scale(target) {
        return Ok(object);
    }
    let object: Value = serde_json::from_slice(&object).map_err(|error| {
        tracing::error!(%error, "stored object not valid JSON");
        Failure::internal("a stored object cannot be read")
    })?;
    Ok(render(&scale::scale_of(&object)))
}
