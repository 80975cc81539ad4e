//! DefaultIngressClass: a new Ingress without a class gets the default IngressClass. Among several default classes the
//! newest one is chosen, and the first name among those of the same time.

use std::cmp::Reverse;

use api::ingress::{CLASS_ANNOTATION, is_default_class};
use api::kind;
use api::tree::{as_object_mut, child, entries, is_set, object_mut, text};
use serde_json::{Value, json};
use store::Index;

use crate::failure::Failure;

/// Sets the class of a new Ingress that has none.
pub(super) fn admit(index: &Index, ingress: &mut Value) -> Result<(), Failure> {
    let is_annotated =
        entries(child(ingress, "metadata"), "annotations").any(|(key, _)| key == CLASS_ANNOTATION);
    if is_annotated || is_set(child(ingress, "spec"), "ingressClassName") {
        return Ok(());
    }
    let kind = kind::find(api::ingress::GROUP, "v1", "ingressclasses").ok_or_else(Failure::no_such_path)?;
    let listing = index.list(&kind.store_prefix(None), None, None, None);
    let listing = listing.map_err(|error| Failure::of_read(&error))?;
    let classes: Vec<Value> = listing
        .entries
        .iter()
        .filter_map(|entry| serde_json::from_slice(&entry.value).ok())
        .collect();
    if let Some(name) = default_class(&classes) {
        as_object_mut(ingress);
        object_mut(ingress, "spec").insert("ingressClassName".to_owned(), json!(name));
    }
    Ok(())
}

/// Returns the name of the class for Ingresses without one.
fn default_class(classes: &[Value]) -> Option<&str> {
    let defaults = classes.iter().filter(|class| is_default_class(class));
    let ranked = defaults.map(|class| {
        let metadata = child(class, "metadata");
        // Timestamps of one format sort as text.
        let created = text(metadata, "creationTimestamp");
        (Reverse(created), text(metadata, "name"))
    });
    ranked.min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests;
