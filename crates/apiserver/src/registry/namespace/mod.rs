//! Namespaces: checks on creation and deletion, default objects, and termination.

mod content;
mod default_objects;
mod termination;

pub(crate) use default_objects::maintain as maintain_default_objects;
pub(crate) use termination::run as run_termination;

use api::apps::complete_conditions;
use api::field::{FieldError, FieldErrors, Path};
use api::metadata::{self, NameForm, push_faults};
use api::names;
use api::object::Namespace;
use api::tree::{as_object_mut, child, is_set, object_mut, set, set_or_clear, text, texts};
use serde_json::{Value, json};
use store::{Expectation, Index, Key};

use crate::failure::Failure;
use crate::request::route::Target;

/// Namespaces that the server creates at start.
pub(crate) const DEFAULT_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// Namespaces that cannot be deleted.
const UNDELETABLE_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The finalizer of a Namespace's content.
const FINALIZER: &str = "kubernetes";
/// Label with the Namespace's name, for selectors.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Checks that the namespace of `target` exists and is not being deleted. Returns the expectation that the state of the
/// namespace is the same at the commit, or `None` for a cluster-scoped kind.
pub(crate) fn guard_create(
    index: &Index,
    target: &Target,
    object: &Value,
) -> Result<Option<(Key, Expectation)>, Failure> {
    if !target.kind.namespaced {
        return Ok(None);
    }
    let namespace = target.namespace();
    let namespaces = namespace_kind()?;
    let entry = index
        .get(&namespaces.store_key("", namespace))
        .ok_or_else(|| Failure::not_found(namespaces, namespace))?;
    let is_terminating = serde_json::from_slice::<Namespace>(&entry.value)
        .map_or(true, |namespace| namespace.metadata.deletion_timestamp.is_some());
    if is_terminating {
        let name = text(child(object, "metadata"), "name");
        let message =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = json!({
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        });
        return Err(Failure::forbidden(target.kind, name, &message).with_causes(vec![cause]));
    }
    Ok(Some((entry.key, Expectation::At(entry.modified))))
}

/// Refuses to delete Namespaces that the cluster needs.
pub(crate) fn guard_delete(target: &Target) -> Result<(), Failure> {
    if target.kind.kind == "Namespace" && UNDELETABLE_NAMESPACES.contains(&target.name()) {
        return Err(Failure::forbidden(
            target.kind,
            target.name(),
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}

/// Sets the label with the Namespace's name, the phase and the fields of conditions.
pub(crate) fn default_on_write(namespace: &mut Value) {
    let name = text(child(namespace, "metadata"), "name").to_owned();
    if !name.is_empty()
        && let Some(metadata) = namespace.get_mut("metadata")
    {
        object_mut(metadata, "labels").insert(NAME_LABEL.to_owned(), name.into());
    }
    api::metadata::omit_empty(namespace);
    let status = object_mut(namespace, "status");
    if status
        .get("phase")
        .is_none_or(|phase| phase.is_null() || phase == "")
    {
        status.insert("phase".to_owned(), json!("Active"));
    }
    complete_conditions(namespace, &["lastTransitionTime"]);
}

/// Sets the phase and the finalizer of a new Namespace.
pub(crate) fn prepare_create(namespace: &mut Value) {
    let mut finalizers = api::tree::items(child(namespace, "spec"), "finalizers").to_vec();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(json!(FINALIZER));
    }
    object_mut(namespace, "spec").insert("finalizers".to_owned(), finalizers.into());
    set(namespace, "status", json!({"phase": "Active"}));
}

/// Restores spec and status, which change only through `finalize` and `status`.
pub(crate) fn prepare_update(new: &mut Value, old: &Value) {
    for field in ["spec", "status"] {
        set_or_clear(new, field, old.get(field).cloned());
    }
}

/// Validates a new Namespace.
pub(crate) fn validate(namespace: &Value) -> FieldErrors {
    let mut errors = metadata::validate(namespace, NameForm::DnsLabel, false);
    let path = Path::new("spec").child("finalizers");
    for finalizer in texts(child(namespace, "spec"), "finalizers") {
        push_faults(&mut errors, &path, finalizer, names::qualified_name(finalizer));
        if !finalizer.contains('/') && finalizer != FINALIZER {
            let fault = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(&path, finalizer, fault));
        }
    }
    errors
}

/// Validates an update of the status: the phase states if the Namespace is being deleted.
pub(crate) fn validate_status_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    let phase = text(child(new, "status"), "phase");
    let (expected, state) = if is_set(child(new, "metadata"), "deletionTimestamp") {
        ("Terminating", "not empty")
    } else {
        ("Active", "empty")
    };
    if !phase.is_empty() && phase != expected {
        let path = Path::new("status").child("Phase");
        let fault = format!("may only be '{expected}' if `deletionTimestamp` is {state}");
        errors.push(FieldError::invalid(&path, phase, fault));
    }
    errors
}

/// Returns a Namespace without its finalizer.
pub(crate) fn finalized(namespace: &Value) -> Value {
    let mut finalized = namespace.clone();
    if let Some(spec) = as_object_mut(&mut finalized).get_mut("spec")
        && let Some(finalizers) = spec.get_mut("finalizers").and_then(Value::as_array_mut)
    {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    finalized
}

/// Returns the kind `Namespace`.
pub(crate) fn namespace_kind() -> Result<&'static api::kind::Kind, Failure> {
    api::kind::find("", "v1", "namespaces").ok_or_else(|| Failure::internal("namespaces are not served"))
}

#[cfg(test)]
mod tests;
