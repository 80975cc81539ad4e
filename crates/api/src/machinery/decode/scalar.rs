//! Scalars with a canonical form, zero values, and Go type names for messages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::quantity;
use crate::machinery::schema::{Schema, Shape};

/// Validates base64 text.
pub(super) fn bytes(text: String) -> Result<String, String> {
    match STANDARD.decode(&text) {
        Ok(_) => Ok(text),
        Err(_) => Err("illegal base64 data".to_owned()),
    }
}

/// Returns a timestamp in canonical form: UTC, with `digits` fractional digits of the second.
pub(super) fn time(text: &str, digits: usize) -> Result<String, String> {
    let time: Timestamp = text.parse().map_err(|_| {
        format!("parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?}")
    })?;
    Ok(format!("{time:.digits$}"))
}

/// Returns a quantity in canonical form.
pub(crate) fn quantity(text: &str) -> Result<String, String> {
    quantity::canonical(text.trim())
}

/// Returns the zero value that replaces `null` in a list or map.
pub(crate) fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::String | Shape::Bytes => Value::String(String::new()),
        Shape::Quantity => Value::String("0".to_owned()),
        Shape::Int32 | Shape::Int64 | Shape::Number | Shape::IntOrString => Value::from(0),
        Shape::Boolean => Value::Bool(false),
        Shape::Object(_) => Value::Object(Map::new()),
        Shape::Time | Shape::MicroTime | Shape::List(_) | Shape::Map(_) | Shape::Free => Value::Null,
    }
}

/// Returns the Go type name of a shape, as in upstream's messages.
pub(super) fn go_type(shape: &Shape, schema: &Schema) -> String {
    match shape {
        Shape::String => "string".into(),
        Shape::Bytes => "[]uint8".into(),
        Shape::Time => "v1.Time".into(),
        Shape::MicroTime => "v1.MicroTime".into(),
        Shape::Int32 => "int32".into(),
        Shape::Int64 => "int64".into(),
        Shape::Number => "float64".into(),
        Shape::Boolean => "bool".into(),
        Shape::Quantity => "resource.Quantity".into(),
        Shape::IntOrString => "intstr.IntOrString".into(),
        Shape::Object(id) => format!("v1.{}", schema.get(*id).short_name()),
        Shape::List(inner) => format!("[]{}", go_type(inner, schema)),
        Shape::Map(inner) => format!("map[string]{}", go_type(inner, schema)),
        Shape::Free => "interface {}".into(),
    }
}
