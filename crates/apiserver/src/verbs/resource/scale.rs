//! The `scale` subresource: the object is read and written in another form, in which it is nothing but its replicas.
//! On every other path all of this leaves things as they are.

use api::kind::{SCALE, SCALE_KIND};
use api::scale;
use api::tree::{child, clear};
use bytes::Bytes;
use serde_json::{Value, json};

use super::rendered;
use crate::failure::Failure;
use crate::request::route::Target;

fn is_scale(target: &Target) -> bool {
    target.subresource == Some(SCALE)
}

/// What a client is shown of a stored object.
pub(super) fn shown(object: Value, target: &Target) -> Value {
    match is_scale(target) {
        true => scale::scale_of(&object),
        false => object,
    }
}

/// The object that a client means by what it sent.
pub(super) fn taken(sent: Value, stored: &Value, target: &Target) -> Result<Value, Failure> {
    if !is_scale(target) {
        return Ok(sent);
    }
    let errors = scale::validate(&sent);
    match errors.is_empty() {
        true => Ok(scale::with_scale(stored, &sent)),
        false => Err(Failure::invalid(&SCALE_KIND, target.name(), &errors)),
    }
}

/// The configuration of the object that a client applies by the one that it sent.
pub(super) fn configuration(sent: Value, target: &Target) -> Result<Value, Failure> {
    if !is_scale(target) {
        return Ok(sent);
    }
    let mut metadata = child(&sent, "metadata").clone();
    for field in ["labels", "annotations", "ownerReferences", "finalizers"] {
        clear(&mut metadata, field);
    }
    let mut configuration = json!({
        "apiVersion": target.kind.api_version(),
        "kind": target.kind.kind,
        "metadata": metadata,
    });
    if let Some(replicas) = child(&sent, "spec").get("replicas").and_then(Value::as_i64) {
        if replicas < 0 {
            let errors = scale::validate(&sent);
            return Err(Failure::invalid(&SCALE_KIND, target.name(), &errors));
        }
        configuration["spec"] = json!({ "replicas": replicas });
    }
    Ok(configuration)
}

/// An answer in the form that its path has.
pub(crate) fn shown_as_scale(object: Bytes, target: &Target) -> Result<Bytes, Failure> {
    if !is_scale(target) {
        return Ok(object);
    }
    let object: Value = serde_json::from_slice(&object).map_err(|error| {
        tracing::error!(%error, "a stored object is not JSON");
        Failure::internal("a stored object cannot be read")
    })?;
    Ok(rendered(&scale::scale_of(&object)))
}
