//! Reading and changing object trees by field name. An absent field, `null` and the type's zero value
//! mean the same to the Kubernetes API for most fields; these functions say which reading is meant.
//! A field of an unexpected JSON type reads as absent: decoding has refused it before.

use serde_json::{Map, Value};

/// The string at `field`, or `""`.
pub fn text<'a>(tree: &'a Value, field: &str) -> &'a str {
    tree.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The string at `field`, if there is one (even an empty one).
pub fn text_if_set<'a>(tree: &'a Value, field: &str) -> Option<&'a str> {
    tree.get(field).and_then(Value::as_str)
}

/// The integer at `field`, or 0.
pub fn number(tree: &Value, field: &str) -> i64 {
    tree.get(field).and_then(Value::as_i64).unwrap_or_default()
}

/// The boolean at `field`, if there is one.
pub fn flag_if_set(tree: &Value, field: &str) -> Option<bool> {
    tree.get(field).and_then(Value::as_bool)
}

/// The list at `field`, or an empty one.
pub fn items<'a>(tree: &'a Value, field: &str) -> &'a [Value] {
    tree.get(field)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The list at `field` for changing, or an empty one.
pub fn items_mut<'a>(tree: &'a mut Value, field: &str) -> &'a mut [Value] {
    tree.get_mut(field)
        .and_then(Value::as_array_mut)
        .map_or(&mut [], Vec::as_mut_slice)
}

/// The strings of the list at `field`.
pub fn texts<'a>(tree: &'a Value, field: &str) -> Vec<&'a str> {
    items(tree, field).iter().filter_map(Value::as_str).collect()
}

/// The string entries of the map at `field`.
pub fn entries<'a>(tree: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    tree.get(field)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

/// Whether `field` is there and not `null`.
pub fn is_set(tree: &Value, field: &str) -> bool {
    tree.get(field).is_some_and(|value| !value.is_null())
}

/// The value at `field`, `null` if there is none.
pub fn child<'a>(tree: &'a Value, field: &str) -> &'a Value {
    const NONE: &Value = &Value::Null;
    tree.get(field).unwrap_or(NONE)
}

/// The object at `field`, made if it is absent or of another type.
pub fn object_mut<'a>(tree: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    let slot = as_object_mut(tree).entry(field).or_insert(Value::Null);
    as_object_mut(slot)
}

/// The tree as an object, made one if it is something else.
pub fn as_object_mut(tree: &mut Value) -> &mut Map<String, Value> {
    if !tree.is_object() {
        *tree = Value::Object(Map::new());
    }
    // The branch above leaves nothing but objects, which the compiler cannot see.
    tree.as_object_mut().expect("was made an object")
}

/// Sets `field`.
pub fn set(tree: &mut Value, field: &str, value: impl Into<Value>) {
    as_object_mut(tree).insert(field.to_owned(), value.into());
}

/// Removes `field`, keeping the order of the others.
pub fn clear(tree: &mut Value, field: &str) {
    if let Some(map) = tree.as_object_mut() {
        map.shift_remove(field);
    }
}

/// Sets `field` to `value`, or removes it if there is none.
pub fn set_or_clear(tree: &mut Value, field: &str, value: Option<Value>) {
    match value {
        Some(value) => set(tree, field, value),
        None => clear(tree, field),
    }
}

/// Removes those of `fields` that hold a zero value (`null`, `""`, `0`, `false`, `[]`, `{}`): they are
/// never written out by the reference, whether they came in or not.
pub fn omit_zero(tree: &mut Value, fields: &[&str]) {
    let Some(map) = tree.as_object_mut() else { return };
    for field in fields {
        if map.get(*field).is_some_and(is_zero) {
            map.shift_remove(*field);
        }
    }
}

/// Removes those of `fields` that are `null`; other zero values have a meaning there.
pub fn omit_null(tree: &mut Value, fields: &[&str]) {
    let Some(map) = tree.as_object_mut() else { return };
    for field in fields {
        if map.get(*field).is_some_and(Value::is_null) {
            map.shift_remove(*field);
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
