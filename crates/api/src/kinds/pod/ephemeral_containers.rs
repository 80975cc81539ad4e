//! Updates of the subresource `ephemeralcontainers` of Pods (upstream's `podEphemeralContainersStrategy`).

use std::collections::HashMap;

use serde_json::Value;

use super::update::{set_next_generation, validate_mirror_annotation};
use super::{EPHEMERAL_CONTAINERS, is_mirror, validate_spec};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata;
use crate::machinery::tree::{child, items, object_mut, set_or_clear, text};

/// Fields of the metadata that come from the update. All others come from the stored Pod.
const UPDATED_METADATA: [&str; 4] = ["name", "namespace", "uid", "resourceVersion"];

/// Prepares an update: everything but the ephemeral containers stays. A change increments the generation.
pub fn prepare_ephemeral_containers_update(new: &mut Value, old: &Value) {
    let mut prepared = old.clone();
    let given = child(child(new, "spec"), EPHEMERAL_CONTAINERS);
    let given = (!given.is_null()).then(|| given.clone());
    object_mut(&mut prepared, "spec");
    if let Some(spec) = prepared.get_mut("spec") {
        set_or_clear(spec, EPHEMERAL_CONTAINERS, given);
    }
    object_mut(&mut prepared, "metadata");
    if let Some(metadata) = prepared.get_mut("metadata") {
        for field in UPDATED_METADATA {
            set_or_clear(metadata, field, child(new, "metadata").get(field).cloned());
        }
    }
    *new = prepared;
    set_next_generation(new, old);
}

/// Validates an update, which can only add ephemeral containers.
pub fn validate_ephemeral_containers_update(new: &Value, old: &Value) -> FieldErrors {
    if is_mirror(old) {
        let detail = "static pods do not support ephemeral containers";
        return vec![FieldError::forbidden(&Path::new(""), detail)];
    }
    let mut errors = metadata::validate_update(new, old);
    let (spec, path) = (child(new, "spec"), Path::new("spec"));
    validate_spec(&mut errors, spec, &path);
    errors.extend(validate_mirror_annotation(new, old));
    let path = path.child(EPHEMERAL_CONTAINERS);
    let now = items(spec, EPHEMERAL_CONTAINERS).iter();
    let now: HashMap<&str, &Value> = now
        .map(|container| (text(container, "name"), container))
        .collect();
    for then in items(child(old, "spec"), EPHEMERAL_CONTAINERS) {
        let name = text(then, "name");
        let verb = match now.get(name) {
            None => "removed",
            Some(now) if *now != then => "changed",
            Some(_) => continue,
        };
        let detail = format!("existing ephemeral containers {name:?} may not be {verb}\n");
        errors.push(FieldError::forbidden(&path, detail));
    }
    errors
}
