//! Omission of empty lists and maps, which upstream does not serialize.

use serde_json::Value;

use super::schema::{Shape, schema};

/// Removes the empty lists and maps of a tree, whose type is `definition`. Empty objects are kept, because many select
/// something by their presence, for example `emptyDir: {}`. Fields named in `kept` are kept: upstream serializes them.
pub(crate) fn omit_empty_collections(tree: &mut Value, definition: &str, kept: &[&str]) {
    if let Some(shape) = schema().shape(definition) {
        omit_in(tree, &shape, kept);
    }
}

/// The depth of the recursion is that of the body, which the parser limits.
fn omit_in(value: &mut Value, shape: &Shape, kept: &[&str]) {
    match (shape, value) {
        (Shape::Object(id), Value::Object(fields)) => {
            let definition = schema().get(*id);
            fields.retain(|name, value| {
                let Some(field) = definition.field(name) else {
                    return true;
                };
                omit_in(value, &field.shape, kept);
                !is_empty_collection(value, &field.shape) || kept.contains(&name.as_str())
            });
        }
        (Shape::List(inner), Value::Array(items)) => {
            for item in items {
                omit_in(item, inner, kept);
            }
        }
        (Shape::Map(inner), Value::Object(entries)) => {
            for value in entries.values_mut() {
                omit_in(value, inner, kept);
            }
        }
        _ => {}
    }
}

fn is_empty_collection(value: &Value, shape: &Shape) -> bool {
    match (shape, value) {
        (Shape::List(_), Value::Array(items)) => items.is_empty(),
        (Shape::Map(_), Value::Object(entries)) => entries.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
