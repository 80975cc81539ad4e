//! The number of Pods that are created at once.

use std::mem::size_of;

use serde_json::Value;

/// Upper bound of the memory of the Pods that are created at once. A template that the API server accepts takes up to
/// about 10 MiB.
const BYTES_MAX: usize = 64 << 20;
/// Memory of a field of an object beside its name and its value.
const FIELD_BYTES: usize = size_of::<String>() + 2 * size_of::<usize>();

/// Returns the number of Pods that are created at once from a template: `max`, fewer from a large template, and at
/// least one.
pub(crate) fn pods_at_once(max: usize, template: &Value) -> usize {
    (BYTES_MAX / memory_of(template)).min(max).max(1)
}

/// Estimates the memory of a value.
fn memory_of(value: &Value) -> usize {
    let content = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(memory_of).sum(),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| FIELD_BYTES + name.len() + memory_of(value);
            fields.iter().map(field).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + content
}

#[cfg(test)]
mod tests;
