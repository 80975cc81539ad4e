//! Encoding of objects as messages, the inverse of [`super::decoder`].
//!
//! Absent fields are omitted, and so are values of another type than the schema's. Stored objects match the schema,
//! so only objects of older versions may have such values.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::MAGIC;
use super::numbers::{NumberedField, Target, numbers};
use crate::machinery::schema::{Definition, DefinitionId, Shape, schema};
use crate::machinery::tree::{child, text};

/// Encodes an object of a definition, by full name, as a body: magic number, envelope and message. Returns `None` if
/// the definition has no message.
pub fn write(object: &Value, definition: &str) -> Option<Vec<u8>> {
    let message = message(object, definition)?;
    Some(envelope(object, &message))
}

/// Encodes the message only, as it occurs in other messages.
pub fn message(object: &Value, definition: &str) -> Option<Vec<u8>> {
    let Some(Shape::Object(id)) = schema().shape(definition) else {
        return None;
    };
    if numbers().of(id).is_empty() {
        return None;
    }
    let mut out = Vec::new();
    write_message(object.as_object()?, id, &mut out);
    Some(out)
}

/// Encodes a list from its metadata and the messages of its items. The envelope has the type of `list`.
pub fn write_list(list: &Value, items: impl Iterator<Item = Vec<u8>>) -> Option<Vec<u8>> {
    let metadata = message(
        child(list, "metadata"),
        "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
    )?;
    let mut out = Vec::new();
    put_bytes(1, &metadata, &mut out);
    for item in items {
        put_bytes(2, &item, &mut out);
    }
    Some(envelope(list, &out))
}

/// Encodes the message of `PartialObjectMetadata`.
pub fn metadata_message(object: &Value) -> Option<Vec<u8>> {
    let metadata = message(
        child(object, "metadata"),
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
    )?;
    let mut out = Vec::new();
    put_bytes(1, &metadata, &mut out);
    Some(out)
}

/// Wraps a message in an envelope with the type of `object`.
pub fn envelope(object: &Value, message: &[u8]) -> Vec<u8> {
    let mut type_meta = Vec::new();
    put_bytes(1, text(object, "apiVersion").as_bytes(), &mut type_meta);
    put_bytes(2, text(object, "kind").as_bytes(), &mut type_meta);
    let mut out = MAGIC.to_vec();
    put_bytes(1, &type_meta, &mut out);
    put_bytes(2, message, &mut out);
    put_bytes(3, b"", &mut out);
    put_bytes(4, b"", &mut out);
    out
}

/// Encodes a watch event as a frame: four bytes of length, and a message of the event type and the enveloped object.
pub fn watch_frame(change: &str, envelope: &[u8]) -> Vec<u8> {
    let mut raw = Vec::with_capacity(envelope.len() + 8);
    put_bytes(1, envelope, &mut raw);
    let mut event = Vec::with_capacity(raw.len() + 32);
    put_bytes(1, change.as_bytes(), &mut event);
    put_bytes(2, &raw, &mut event);
    let mut frame = Vec::with_capacity(event.len() + 4);
    // Bodies are limited to a few megabytes, and so are objects.
    frame.extend_from_slice(&u32::try_from(event.len()).unwrap_or(u32::MAX).to_be_bytes());
    frame.extend_from_slice(&event);
    frame
}

fn write_message(object: &Map<String, Value>, id: DefinitionId, out: &mut Vec<u8>) {
    write_fields(object, schema().get(id), numbers().of(id), out);
}

fn write_fields(
    object: &Map<String, Value>,
    definition: &'static Definition,
    numbered: &[NumberedField],
    out: &mut Vec<u8>,
) {
    for field in numbered {
        match &field.target {
            Target::Inline(inner) => {
                let mut message = Vec::new();
                write_fields(object, definition, inner, &mut message);
                if !message.is_empty() {
                    put_bytes(field.number, &message, out);
                }
            }
            Target::Field { position, .. } => {
                let Some(field_definition) = definition.fields().get(*position) else {
                    continue;
                };
                if let Some(value) = object.get(field_definition.name) {
                    write_field(field.number, value, &field_definition.shape, out);
                }
            }
        }
    }
}

fn write_field(number: u32, value: &Value, shape: &'static Shape, out: &mut Vec<u8>) {
    match (shape, value) {
        (Shape::List(inner), Value::Array(items)) => {
            items
                .iter()
                .for_each(|item| write_value(number, item, inner, out));
        }
        (Shape::Map(inner), Value::Object(entries)) => {
            let mut entries: Vec<(&String, &Value)> = entries.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            for (key, value) in entries {
                let mut entry = Vec::new();
                put_bytes(1, key.as_bytes(), &mut entry);
                write_value(2, value, inner, &mut entry);
                put_bytes(number, &entry, out);
            }
        }
        _ => write_value(number, value, shape, out),
    }
}

/// Writes a field with its value in the given shape. A value of another type is omitted.
fn write_value(number: u32, value: &Value, shape: &'static Shape, out: &mut Vec<u8>) {
    match (shape, value) {
        (_, Value::Null) => {}
        (Shape::String, Value::String(text)) => put_bytes(number, text.as_bytes(), out),
        (Shape::Bytes, Value::String(text)) => {
            if let Ok(bytes) = STANDARD.decode(text) {
                put_bytes(number, &bytes, out);
            }
        }
        (Shape::Int32 | Shape::Int64, value) => {
            if let Some(value) = value.as_i64() {
                put_varint(number, value, out);
            }
        }
        (Shape::Boolean, Value::Bool(flag)) => put_varint(number, i64::from(*flag), out),
        (Shape::Number, value) => {
            if let Some(value) = value.as_f64() {
                put_tag(number, 1, out);
                out.extend_from_slice(&value.to_le_bytes());
            }
        }
        (Shape::Time | Shape::MicroTime, Value::String(text)) => {
            if let Ok(time) = text.parse::<Timestamp>() {
                let mut message = Vec::new();
                put_varint(1, time.as_second(), &mut message);
                put_varint(2, i64::from(time.subsec_nanosecond()), &mut message);
                put_bytes(number, &message, out);
            }
        }
        (Shape::Quantity, Value::String(text)) => {
            let mut message = Vec::new();
            put_bytes(1, text.as_bytes(), &mut message);
            put_bytes(number, &message, out);
        }
        (Shape::IntOrString, value) => put_bytes(number, &int_or_string(value), out),
        (Shape::Free, value) => {
            let mut message = Vec::new();
            put_bytes(1, value.to_string().as_bytes(), &mut message);
            put_bytes(number, &message, out);
        }
        (Shape::Object(id), Value::Object(object)) => {
            let mut message = Vec::new();
            write_message(object, *id, &mut message);
            put_bytes(number, &message, out);
        }
        // In a map: a message with the items as its only field.
        (Shape::List(inner), Value::Array(items)) => {
            let mut message = Vec::new();
            items
                .iter()
                .for_each(|item| write_value(1, item, inner, &mut message));
            put_bytes(number, &message, out);
        }
        _ => {}
    }
}

/// Encodes an IntOrString: type, integer and string.
fn int_or_string(value: &Value) -> Vec<u8> {
    let (is_text, number, text) = match value {
        Value::String(text) => (1, 0, text.as_str()),
        other => (0, other.as_i64().unwrap_or_default(), ""),
    };
    let mut message = Vec::new();
    put_varint(1, is_text, &mut message);
    put_varint(2, number, &mut message);
    put_bytes(3, text.as_bytes(), &mut message);
    message
}

/// Writes a string, bytes or a message as field `number`.
pub(crate) fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    put_tag(number, 2, out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Writes an integer or a boolean as field `number`. Negative numbers take ten bytes, as protobuf specifies.
pub(crate) fn put_varint(number: u32, value: i64, out: &mut Vec<u8>) {
    put_tag(number, 0, out);
    varint(value as u64, out);
}

fn put_tag(number: u32, wire_type: u8, out: &mut Vec<u8>) {
    varint(u64::from(number) << 3 | u64::from(wire_type), out);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
