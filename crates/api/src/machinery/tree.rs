//! Access to object trees by field name. For most fields of the Kubernetes API, absence, `null` and the zero value of
//! the type are equal. Each function states its interpretation. A field of an unexpected JSON type reads as absent,
//! because decoding has rejected it before.

use serde_json::{Map, Value};

/// Returns the string at `field`, or `""`.
pub fn text<'a>(tree: &'a Value, field: &str) -> &'a str {
    tree.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the string at `field`, which may be empty.
pub fn text_if_set<'a>(tree: &'a Value, field: &str) -> Option<&'a str> {
    tree.get(field).and_then(Value::as_str)
}

/// Returns the integer at `field`, or 0.
pub fn number(tree: &Value, field: &str) -> i64 {
    tree.get(field).and_then(Value::as_i64).unwrap_or_default()
}

/// Returns the boolean at `field`.
pub fn flag_if_set(tree: &Value, field: &str) -> Option<bool> {
    tree.get(field).and_then(Value::as_bool)
}

/// Returns the list at `field`, or an empty one.
pub fn items<'a>(tree: &'a Value, field: &str) -> &'a [Value] {
    tree.get(field)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Returns the list at `field` for modification, or an empty one.
pub fn items_mut<'a>(tree: &'a mut Value, field: &str) -> &'a mut [Value] {
    tree.get_mut(field)
        .and_then(Value::as_array_mut)
        .map_or(&mut [], Vec::as_mut_slice)
}

/// Returns the strings of the list at `field`.
pub fn texts<'a>(tree: &'a Value, field: &str) -> Vec<&'a str> {
    items(tree, field).iter().filter_map(Value::as_str).collect()
}

/// Iterates over the string entries of the map at `field`.
pub fn entries<'a>(tree: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    tree.get(field)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

/// Returns true if `field` exists and is not `null`.
pub fn is_set(tree: &Value, field: &str) -> bool {
    tree.get(field).is_some_and(|value| !value.is_null())
}

/// Returns the value at `field`, or `null`.
pub fn child<'a>(tree: &'a Value, field: &str) -> &'a Value {
    const NONE: &Value = &Value::Null;
    tree.get(field).unwrap_or(NONE)
}

/// Returns the object at `field`. An empty object replaces a missing value, or one of another type.
pub fn object_mut<'a>(tree: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    let slot = as_object_mut(tree).entry(field).or_insert(Value::Null);
    as_object_mut(slot)
}

/// Returns the tree as an object. An empty object replaces a value of another type.
pub fn as_object_mut(tree: &mut Value) -> &mut Map<String, Value> {
    if !tree.is_object() {
        *tree = Value::Object(Map::new());
    }
    // The branch above guarantees an object.
    tree.as_object_mut().expect("object")
}

/// Sets `field`.
pub fn set(tree: &mut Value, field: &str, value: impl Into<Value>) {
    as_object_mut(tree).insert(field.to_owned(), value.into());
}

/// Removes `field`; the order of the others stays.
pub fn clear(tree: &mut Value, field: &str) {
    if let Some(map) = tree.as_object_mut() {
        map.shift_remove(field);
    }
}

/// Sets `field`, or removes it for `None`.
pub fn set_or_clear(tree: &mut Value, field: &str, value: Option<Value>) {
    match value {
        Some(value) => set(tree, field, value),
        None => clear(tree, field),
    }
}

/// Removes those of `fields` that hold a zero value (`null`, `""`, `0`, `false`, `[]`, `{}`). Upstream does not
/// serialize them.
pub fn omit_zero(tree: &mut Value, fields: &[&str]) {
    let Some(map) = tree.as_object_mut() else { return };
    for field in fields {
        if map.get(*field).is_some_and(is_zero) {
            map.shift_remove(*field);
        }
    }
}

/// Removes those of `fields` that are `null`. Other zero values are significant in them.
pub fn omit_null(tree: &mut Value, fields: &[&str]) {
    let Some(map) = tree.as_object_mut() else { return };
    for field in fields {
        if map.get(*field).is_some_and(Value::is_null) {
            map.shift_remove(*field);
        }
    }
}

/// Sets absent texts of the objects in the list at `field` to "". Upstream serializes them always.
pub fn complete_items(tree: &mut Value, field: &str, texts: &[&str]) {
    for item in items_mut(tree, field).iter_mut().filter(|item| item.is_object()) {
        for text in texts {
            if !is_set(item, text) {
                set(item, text, "");
            }
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

#[cfg(test)]
mod tests;
