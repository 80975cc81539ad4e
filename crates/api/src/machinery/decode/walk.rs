//! Single-pass deserialization with a schema check.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::findings::Findings;
use super::location::{Location, Step};
use super::{numbers, scalar};
use crate::machinery::schema::{Definition, Shape, schema};

/// Initial capacity of an object without a size hint.
const FIELDS_USUAL: usize = 4;

/// A value to deserialize, with its shape and location.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    shape: &'a Shape,
    location: &'a Location<'a>,
    findings: &'a Findings,
    /// True if the text is YAML: its floats without fraction are integers.
    is_yaml: bool,
}

impl<'a> Node<'a> {
    /// Creates the node of a value of `shape` at `location`.
    pub(super) fn new(shape: &'a Shape, location: &'a Location<'a>, findings: &'a Findings) -> Self {
        Self {
            shape,
            location,
            findings,
            is_yaml: false,
        }
    }

    /// Returns the node of a value in YAML. As upstream, which converts YAML to JSON, a float without fraction is the
    /// same as an integer.
    pub(super) fn of_yaml(self) -> Self {
        Self {
            is_yaml: true,
            ..self
        }
    }

    fn child<'b>(&'b self, shape: &'b Shape, location: &'b Location<'b>) -> Node<'b> {
        Node {
            shape,
            location,
            findings: self.findings,
            is_yaml: self.is_yaml,
        }
    }

    /// Records a wrong JSON type.
    fn mismatch<E: Error>(&self, found: &str) -> E {
        let mut path = String::new();
        self.location.write_path(&mut path, false);
        let owner = self.location.owner().map_or("", Definition::short_name);
        let expected = scalar::go_type(self.shape, schema());
        self.malformed(if path.is_empty() {
            format!("json: cannot unmarshal {found} into Go value of type {expected}")
        } else {
            format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {expected}")
        })
    }

    /// Records a malformed value of the right type.
    fn malformed<E: Error>(&self, detail: String) -> E {
        let mut mismatch = self.findings.mismatch.borrow_mut();
        E::custom(mismatch.get_or_insert(detail))
    }

    fn integer<E: Error>(&self, number: Number) -> Result<Value, E> {
        let fits = match self.shape {
            Shape::Int32 | Shape::IntOrString => number
                .as_i64()
                .is_some_and(|number| i32::try_from(number).is_ok()),
            Shape::Int64 => number.is_i64(),
            Shape::Number | Shape::Free => true,
            Shape::Quantity => return self.text(number.to_string()),
            _ => return Err(self.mismatch("number")),
        };
        if fits {
            Ok(Value::Number(number))
        } else {
            Err(self.mismatch(&format!("number {number}")))
        }
    }

    fn text<E: Error>(&self, text: String) -> Result<Value, E> {
        let checked = match self.shape {
            Shape::String | Shape::IntOrString | Shape::Free => Ok(text),
            Shape::Bytes => scalar::bytes(text),
            Shape::Time => scalar::time(&text, 0),
            Shape::MicroTime => scalar::micro_time(&text),
            Shape::Quantity => scalar::quantity(&text),
            _ => return Err(self.mismatch("string")),
        };
        checked
            .map(Value::String)
            .map_err(|detail| self.malformed(detail))
    }

    /// Decodes the fields of an object type.
    fn fields<'de, A: MapAccess<'de>>(&self, definition: &Definition, mut map: A) -> Result<Value, A::Error> {
        let capacity = map.size_hint().unwrap_or(FIELDS_USUAL);
        let mut object = Map::new();
        // One bit for each field: `null` values are not kept, so the object does not show them.
        let mut seen = 0u64;
        while let Some(key) = map.next_key_seed(FieldName(definition))? {
            let (position, field) = match key {
                Ok(position) => (position, &definition.fields()[position]),
                Err(unknown) => {
                    self.findings.add_strict_error("unknown", self.location, &unknown);
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let bit = 1u64
                .checked_shl(u32::try_from(position).unwrap_or(u32::MAX))
                .unwrap_or(0);
            if seen & bit != 0 {
                self.findings
                    .add_strict_error("duplicate", self.location, field.name);
            }
            seen |= bit;
            let location = Location {
                parent: Some(self.location),
                step: Step::Field {
                    owner: definition,
                    name: field.name,
                },
            };
            let value = map.next_value_seed(self.child(&field.shape, &location))?;
            if object.is_empty() {
                // An empty object must not allocate, or lists of empty objects would use a hundred times their size
                // in the body.
                object = Map::with_capacity(capacity);
            }
            match (object.get_mut(field.name), value) {
                (_, Value::Null) => {
                    object.shift_remove(field.name);
                }
                // As upstream's decoder: a repeated field adds to an object, and replaces other values.
                (Some(Value::Object(earlier)), Value::Object(later)) => merge_repeated(earlier, later),
                (_, value) => {
                    object.insert(field.name.to_owned(), value);
                }
            }
        }
        Ok(Value::Object(object))
    }

    fn entries<'de, A: MapAccess<'de>>(&self, inner: &Shape, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Map::with_capacity(map.size_hint().unwrap_or(0));
        while let Some(key) = map.next_key::<String>()? {
            let location = Location {
                parent: Some(self.location),
                step: Step::Key(&key),
            };
            let value = map.next_value_seed(self.child(inner, &location))?;
            let value = if value.is_null() {
                scalar::zero(inner)
            } else {
                value
            };
            if entries.contains_key(&key) {
                self.findings.add_strict_error("duplicate", self.location, &key);
            }
            entries.insert(key, value);
        }
        Ok(Value::Object(entries))
    }
}

/// Merges the later value of a repeated field into the earlier one. The depth is that of the body, which the parser
/// limits.
fn merge_repeated(earlier: &mut Map<String, Value>, later: Map<String, Value>) {
    for (name, value) in later {
        match (earlier.get_mut(&name), value) {
            (Some(Value::Object(earlier)), Value::Object(later)) => merge_repeated(earlier, later),
            (_, value) => {
                earlier.insert(name, value);
            }
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Value, D::Error> {
        self.findings.count()?;
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, source: D) -> Result<Value, D::Error> {
        self.deserialize(source)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        match self.shape {
            Shape::Boolean | Shape::Free => Ok(Value::Bool(value)),
            _ => Err(self.mismatch("bool")),
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.integer(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.integer(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        if self.is_yaml
            && let Some(integer) = numbers::whole_as_integer(value)
        {
            return self.integer(integer.into());
        }
        match (self.shape, Number::from_f64(value)) {
            (Shape::Number | Shape::Free, Some(number)) => Ok(Value::Number(number)),
            (Shape::Quantity, Some(number)) => self.text(number.to_string()),
            (Shape::Int32 | Shape::Int64 | Shape::IntOrString, _) => {
                Err(self.mismatch(&format!("number {value}")))
            }
            _ => Err(self.mismatch("number")),
        }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.text(value.to_owned())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.text(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let inner = match self.shape {
            Shape::List(inner) => inner,
            Shape::Free => &Shape::Free,
            _ => return Err(self.mismatch("array")),
        };
        let mut items = Vec::new();
        loop {
            let location = Location {
                parent: Some(self.location),
                step: Step::Index(items.len()),
            };
            match list.next_element_seed(self.child(inner, &location))? {
                None => return Ok(Value::Array(items)),
                Some(Value::Null) => items.push(scalar::zero(inner)),
                Some(value) => items.push(value),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        match self.shape {
            Shape::Object(id) => self.fields(schema().get(*id), map),
            Shape::Map(inner) => self.entries(inner, map),
            Shape::Free => self.entries(&Shape::Free, map),
            _ => Err(self.mismatch("object")),
        }
    }
}

/// Deserializes a field name into its position, or into the name if the field is unknown.
struct FieldName<'a>(&'a Definition);

impl<'de> DeserializeSeed<'de> for FieldName<'_> {
    type Value = Result<usize, String>;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Self::Value, D::Error> {
        source.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldName<'_> {
    type Value = Result<usize, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.position(key).ok_or_else(|| key.to_owned()))
    }
}
