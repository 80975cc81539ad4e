//! Names of ReplicaSets: the name of the Deployment and a hash of the template.

use api::hash::fnv1a_32;
use api::object::ReplicaSet;
use api::tree::{child, clear};
use serde_json::{Map, Value, json};

use super::HASH_LABEL;

/// Upstream's alphabet of hashes. It has no vowels, so that hashes contain no words.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns a hash that identifies a template; `collisions` varies it after a collision. Templates are
/// compared by content, so the hash need not be stable across versions.
pub(crate) fn template_hash(template: &Value, collisions: i64) -> String {
    let mut template = template.clone();
    template.sort_all_objects();
    let text = format!("{template}{collisions}");
    let digits = fnv1a_32(text.bytes()).to_string();
    digits
        .bytes()
        .map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()]))
        .collect()
}

/// Returns true if a ReplicaSet has this template, apart from the hash label.
pub(super) fn has_template(set: &ReplicaSet, template: &Value) -> bool {
    without_hash(&set.spec.template) == without_hash(template)
}

/// Returns the template without the hash label. Absent and empty labels are equal.
fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(metadata) = template.get_mut("metadata") {
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.shift_remove(HASH_LABEL);
        }
        if child(metadata, "labels").as_object().is_some_and(Map::is_empty) {
            clear(metadata, "labels");
        }
        if metadata.get("creationTimestamp").is_some_and(Value::is_null) {
            clear(metadata, "creationTimestamp");
        }
    }
    template
}

/// Returns a label selector, or the metadata of a template, with the hash label added.
pub(super) fn with_hash(tree: &Value, labels: &str, hash: &str) -> Value {
    let mut tree = tree.clone();
    if !tree.is_object() {
        tree = json!({});
    }
    if !tree[labels].is_object() {
        tree[labels] = json!({});
    }
    tree[labels][HASH_LABEL] = hash.into();
    tree
}

#[cfg(test)]
mod tests;
