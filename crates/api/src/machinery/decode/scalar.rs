//! Scalars with a canonical form, zero values, and Go type names for messages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::quantity;
use crate::machinery::schema::{Schema, Shape};

/// Length of a time up to its seconds: `2006-01-02T15:04:05`.
const SECONDS_LENGTH: usize = 19;
/// Length of `.000000`.
const MICROSECONDS_LENGTH: usize = 7;

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

/// Returns a time with microseconds. As upstream, the text has exactly six digits after the seconds.
pub(super) fn micro_time(text: &str) -> Result<String, String> {
    let canonical = time(text, 6)?;
    let refused = |rest: &str, expected: &str| {
        format!(
            "parsing time {text:?} as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse {rest:?} as {expected:?}"
        )
    };
    let rest = text.get(SECONDS_LENGTH..).unwrap_or_default();
    let digits = rest.strip_prefix('.').map(|fraction| {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit);
        digits.count()
    });
    match digits {
        Some(6) => Ok(canonical),
        Some(count) if count > 6 => Err(refused(
            rest.get(MICROSECONDS_LENGTH..).unwrap_or_default(),
            "Z07:00",
        )),
        _ => Err(refused(rest, ".000000")),
    }
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
