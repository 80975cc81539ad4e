//! Conversion of the numbers of trees to the integer types of a kind.

use serde_json::{Number, Value};

use crate::kinds::kind::Kind;
use crate::machinery::schema::{Shape, schema};

/// Converts the numbers of a tree to the integer types of `kind`, as upstream converts the results of strategic merge
/// patches and of server-side apply (`apimachinery/pkg/runtime/converter.go`, `fromUnstructured`). A float without
/// fraction becomes an integer. An integer that exceeds 32 bits loses its upper bits if the field has 32 bits. A number
/// that exceeds 64 bits becomes the smallest integer. Other numbers are unchanged.
pub fn convert_numbers(tree: &mut Value, kind: &Kind) {
    if let Some(shape) = schema().shape(kind.definition) {
        convert(tree, &shape);
    }
}

/// The depth of the recursion is that of the body, which the parser limits.
fn convert(value: &mut Value, shape: &Shape) {
    match (shape, value) {
        (Shape::Int32, Value::Number(number)) => {
            if let Some(integer) = integer(number) {
                *number = low_bits(integer).into();
            }
        }
        (Shape::Int64, Value::Number(number)) => {
            if let Some(integer) = integer(number) {
                *number = integer.into();
            }
        }
        (Shape::IntOrString, Value::Number(number)) => {
            if number.is_f64()
                && let Some(integer) = number.as_f64().and_then(whole_as_integer)
            {
                *number = integer.into();
            }
        }
        (Shape::Object(id), Value::Object(fields)) => {
            let definition = schema().get(*id);
            for (name, value) in fields.iter_mut() {
                if let Some(field) = definition.field(name) {
                    convert(value, &field.shape);
                }
            }
        }
        (Shape::List(inner), Value::Array(items)) => {
            for item in items {
                convert(item, inner);
            }
        }
        (Shape::Map(inner), Value::Object(entries)) => {
            for value in entries.values_mut() {
                convert(value, inner);
            }
        }
        _ => {}
    }
}

/// Returns a number without fraction as an integer. Go converts floats outside of the range to the smallest integer.
fn integer(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| {
        let float = number.as_f64()?;
        (float.fract() == 0.0).then(|| whole_as_integer(float).unwrap_or(i64::MIN))
    })
}

/// Returns a float without fraction as an integer, if it is in the range of integers.
pub(super) fn whole_as_integer(float: f64) -> Option<i64> {
    if float.fract() == 0.0 {
        format!("{float:.0}").parse().ok()
    } else {
        None
    }
}

/// Returns the low 32 bits of an integer.
fn low_bits(integer: i64) -> i32 {
    let [first, second, third, fourth, ..] = integer.to_le_bytes();
    i32::from_le_bytes([first, second, third, fourth])
}

#[cfg(test)]
mod tests;
