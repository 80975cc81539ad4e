//! Decoding of messages into objects, by the schema and the field numbers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::numbers::{NumberedField, Target, find, numbers};
use super::wire::{Fields, Payload, varint};
use super::{ProtobufError, utf8};
use crate::machinery::decode::{DecodeError, decode_json_within, scalar};
use crate::machinery::schema::{Definition, DefinitionId, Field, Shape, schema};

/// Decoder of one object with a limit on its values. The recursion depth is bounded, because no definition of the
/// schema contains itself.
pub(super) struct Decoder {
    values_left: usize,
}

impl Decoder {
    /// Creates a decoder of at most `values_max` values.
    pub(super) fn new(values_max: usize) -> Self {
        Self {
            values_left: values_max,
        }
    }

    /// Decodes a message into `object`. Existing fields are merged, as protobuf specifies for a message in several
    /// parts.
    pub(super) fn message(
        &mut self,
        bytes: &[u8],
        id: DefinitionId,
        object: &mut Map<String, Value>,
    ) -> Result<(), ProtobufError> {
        self.fields(bytes, schema().get(id), numbers().of(id), object)
    }

    /// Decodes the fields of a message; unknown fields are skipped.
    fn fields(
        &mut self,
        bytes: &[u8],
        definition: &Definition,
        numbered: &[NumberedField],
        object: &mut Map<String, Value>,
    ) -> Result<(), ProtobufError> {
        for field in Fields::of(bytes) {
            let (number, payload) = field?;
            match find(numbered, number) {
                None => {}
                Some(Target::Inline(inner)) => self.fields(payload.bytes()?, definition, inner, object)?,
                Some(Target::Field { position, keeps_zero }) => {
                    let Some(field) = definition.fields().get(*position) else {
                        continue;
                    };
                    self.field(payload, field, *keeps_zero, object)
                        .map_err(|error| error.within(field.name))?;
                }
            }
        }
        Ok(())
    }

    /// Decodes one field into its object.
    fn field(
        &mut self,
        payload: Payload<'_>,
        field: &Field,
        keeps_zero: bool,
        object: &mut Map<String, Value>,
    ) -> Result<(), ProtobufError> {
        let value = match &field.shape {
            Shape::List(inner) => {
                let slot = object
                    .entry(field.name)
                    .or_insert_with(|| Value::Array(Vec::new()));
                return match slot {
                    Value::Array(items) => self.items(payload, inner, items),
                    _ => Ok(()),
                };
            }
            Shape::Map(inner) => return self.entry(payload, inner, child_object(object, field.name)),
            Shape::Object(id) => {
                self.count()?;
                return self.message(payload.bytes()?, *id, child_object(object, field.name));
            }
            shape => self.value(payload, shape)?,
        };
        if value.is_null() || (!keeps_zero && is_zero(&value, &field.shape)) {
            object.shift_remove(field.name);
        } else {
            object.insert(field.name.to_owned(), value);
        }
        Ok(())
    }

    /// Decodes an item of a list, or several packed numbers.
    fn items(
        &mut self,
        payload: Payload<'_>,
        shape: &Shape,
        items: &mut Vec<Value>,
    ) -> Result<(), ProtobufError> {
        let is_number = matches!(shape, Shape::Int32 | Shape::Int64 | Shape::Boolean);
        if let (Payload::Bytes(mut packed), true) = (payload, is_number) {
            while !packed.is_empty() {
                let (number, rest) = varint(packed)?;
                items.push(self.value(Payload::Varint(number), shape)?);
                packed = rest;
            }
            return Ok(());
        }
        items.push(self.value(payload, shape)?);
        Ok(())
    }

    /// Decodes a map entry: a message of key and value, both optional.
    fn entry(
        &mut self,
        payload: Payload<'_>,
        shape: &Shape,
        entries: &mut Map<String, Value>,
    ) -> Result<(), ProtobufError> {
        let (mut key, mut value) = ("", scalar::zero(shape));
        for field in Fields::of(payload.bytes()?) {
            match field? {
                (1, payload) => key = utf8(payload.bytes()?)?,
                (2, payload) => value = self.value(payload, shape).map_err(|error| error.within(key))?,
                _ => {}
            }
        }
        self.count()?;
        entries.insert(key.to_owned(), value);
        Ok(())
    }

    /// Decodes a single value.
    fn value(&mut self, payload: Payload<'_>, shape: &Shape) -> Result<Value, ProtobufError> {
        self.count()?;
        // 32-bit integers are sign-extended to 64 bits on the wire; the lower half is significant.
        Ok(match shape {
            Shape::String => utf8(payload.bytes()?)?.into(),
            Shape::Bytes => STANDARD.encode(payload.bytes()?).into(),
            Shape::Int32 => (payload.varint()? as i32).into(),
            Shape::Int64 => (payload.varint()? as i64).into(),
            Shape::Boolean => (payload.varint()? != 0).into(),
            Shape::Number => payload.double()?.into(),
            Shape::Time => time(payload.bytes()?, 0)?,
            Shape::MicroTime => time(payload.bytes()?, 6)?,
            Shape::Quantity => quantity(payload.bytes()?)?,
            Shape::IntOrString => int_or_string(payload.bytes()?)?,
            Shape::Free => self.raw(payload.bytes()?)?,
            Shape::Object(id) => {
                let mut object = Map::new();
                self.message(payload.bytes()?, *id, &mut object)?;
                Value::Object(object)
            }
            Shape::List(inner) => {
                // A list in a map is a message with the items as its only field (`ExtraValue`).
                let mut items = Vec::new();
                for field in Fields::of(payload.bytes()?) {
                    if let (1, payload) = field? {
                        self.items(payload, inner, &mut items)?;
                    }
                }
                Value::Array(items)
            }
            Shape::Map(_) => {
                return Err(ProtobufError::malformed(
                    "a map in a map or list has no protobuf encoding",
                ));
            }
        })
    }

    /// Decodes free-form JSON in a message.
    fn raw(&mut self, bytes: &[u8]) -> Result<Value, ProtobufError> {
        let mut json: &[u8] = &[];
        for field in Fields::of(bytes) {
            if let (1, payload) = field? {
                json = payload.bytes()?;
            }
        }
        if json.is_empty() {
            return Ok(Value::Null);
        }
        let decoded = decode_json_within(json, self.values_left);
        let (value, values) = decoded.map_err(|error| match error {
            DecodeError::TooManyValues => ProtobufError::TooManyValues,
            other => ProtobufError::malformed(other),
        })?;
        self.values_left = self.values_left.saturating_sub(values);
        Ok(value)
    }

    fn count(&mut self) -> Result<(), ProtobufError> {
        self.values_left = self
            .values_left
            .checked_sub(1)
            .ok_or(ProtobufError::TooManyValues)?;
        Ok(())
    }
}

/// Returns the object in a field of `object`, created if absent.
fn child_object<'o>(object: &'o mut Map<String, Value>, name: &str) -> &'o mut Map<String, Value> {
    let slot = object.entry(name).or_insert(Value::Null);
    crate::machinery::tree::as_object_mut(slot)
}

/// Returns true if a Go client's JSON omits the value.
fn is_zero(value: &Value, shape: &Shape) -> bool {
    match shape {
        Shape::String | Shape::Bytes | Shape::Int32 | Shape::Int64 | Shape::Boolean => {
            *value == scalar::zero(shape)
        }
        _ => false,
    }
}

/// Decodes a timestamp of seconds and nanoseconds since the epoch, truncated to `digits` fractional digits. An empty
/// message is `null`.
fn time(bytes: &[u8], digits: usize) -> Result<Value, ProtobufError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanoseconds) = (0, 0);
    for field in Fields::of(bytes) {
        match field? {
            (1, payload) => seconds = payload.varint()? as i64,
            (2, payload) => nanoseconds = payload.varint()? as i32,
            _ => {}
        }
    }
    let truncated = if digits == 0 { 0 } else { nanoseconds / 1000 * 1000 };
    match Timestamp::new(seconds, truncated) {
        Ok(time) => Ok(format!("{time:.digits$}").into()),
        Err(_) => Err(ProtobufError::malformed(format!(
            "timestamp out of range: {seconds} seconds, {nanoseconds} nanoseconds"
        ))),
    }
}

/// Decodes a quantity.
fn quantity(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut text = "0";
    for field in Fields::of(bytes) {
        if let (1, payload) = field? {
            text = utf8(payload.bytes()?)?;
        }
    }
    let canonical = scalar::quantity(text).map_err(ProtobufError::malformed)?;
    Ok(Value::String(canonical))
}

/// Decodes an IntOrString: type, integer and string.
fn int_or_string(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut is_text, mut number, mut text) = (false, 0, "");
    for field in Fields::of(bytes) {
        match field? {
            (1, payload) => is_text = payload.varint()? == 1,
            (2, payload) => number = payload.varint()? as i32,
            (3, payload) => text = utf8(payload.bytes()?)?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}
