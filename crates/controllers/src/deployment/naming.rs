//! Names of ReplicaSets: the Deployment's, and a hash of the template.

use api::object::ReplicaSet;
use api::tree::{child, clear};
use serde_json::{Map, Value, json};

use super::HASH_LABEL;

/// Letters of hashes, as upstream has them: no vowels, so that no words come about.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A text for a template that other templates do not have, but for chance; `collisions` is how often chance struck.
/// It stays the same as long as this program computes it so: a template is found again by comparison, not by its hash.
pub fn template_hash(template: &Value, collisions: i64) -> String {
    let mut template = template.clone();
    template.sort_all_objects();
    let text = format!("{template}{collisions}");
    // FNV-1a of 32 bits.
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let digits = hash.to_string();
    digits
        .bytes()
        .map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()]))
        .collect()
}

/// Whether a ReplicaSet makes its Pods from a template, the label with the hash left aside.
pub(super) fn is_of(set: &ReplicaSet, template: &Value) -> bool {
    without_hash(&set.spec.template) == without_hash(template)
}

/// A template without the label with the hash. Labels that are absent and none are the same.
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

/// A label selector, or the labels of a template's metadata, with the label of a hash.
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
