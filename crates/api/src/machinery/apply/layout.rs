//! Division of values into fields, according to the schema.

use std::fmt;

use serde_json::Value;

use super::field_set::{FieldSet, PathElement, Scalar};
use crate::kinds::kind::Kind;
use crate::machinery::decode::scalar;
use crate::machinery::schema::{Definition, Field, ListType, Shape, schema};

/// Maximum bytes of a key field of a list item, the length of a path of the kernel. The fields of an item repeat its keys in
/// paths.
const KEY_BYTES_MAX: usize = 4096;

/// Reason why a list item has no path element of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyFault {
    /// The key field is absent and has no default.
    Absent(&'static str),
    /// The key field is too long.
    TooLong(&'static str),
}

impl fmt::Display for KeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(key) => write!(
                f,
                "associative list with keys has an element that omits key field {key:?} (and doesn't have default value)"
            ),
            Self::TooLong(key) => write!(
                f,
                "associative list with keys has an element whose key field {key:?} has more than {KEY_BYTES_MAX} bytes"
            ),
        }
    }
}

/// Division of a value into parts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Layout {
    /// Atomic: owned as a whole.
    Leaf,
    /// Fields of an object type.
    Object(&'static Definition),
    /// Map entries of this shape.
    Map(&'static Shape),
    /// Set items, identified by their values.
    Set,
    /// List items of this type, identified by these key fields.
    ListMap(&'static [&'static str], &'static Definition),
}

/// Part of a value.
pub(super) struct Part<'v> {
    pub(super) element: PathElement,
    pub(super) value: &'v Value,
    pub(super) layout: Layout,
}

impl Layout {
    /// Returns the layout of an object of a kind.
    pub(super) fn of_kind(kind: &Kind) -> Layout {
        schema().of_kind(kind).map_or(Layout::Leaf, Layout::Object)
    }

    /// Returns the layout of a field of an object type.
    pub(super) fn of_field(field: &'static Field) -> Layout {
        if field.is_atomic {
            return Layout::Leaf;
        }
        match (&field.shape, &field.list) {
            (Shape::List(_), ListType::Set) => Layout::Set,
            (Shape::List(inner), ListType::Map(keys)) => inner
                .definition(schema())
                .map_or(Layout::Leaf, |item| Layout::ListMap(keys, item)),
            (shape, _) => Layout::of_shape(shape),
        }
    }

    fn of_shape(shape: &'static Shape) -> Layout {
        match shape {
            Shape::Object(id) => Layout::of_definition(schema().get(*id)),
            Shape::Map(inner) => Layout::Map(inner),
            _ => Layout::Leaf,
        }
    }

    fn of_definition(definition: &'static Definition) -> Layout {
        if definition.is_atomic {
            Layout::Leaf
        } else {
            Layout::Object(definition)
        }
    }

    /// Returns the layout of the part at `element`.
    pub(super) fn child(self, element: &PathElement) -> Layout {
        match (self, element) {
            (layout, PathElement::Field(name)) => layout.child_field(name),
            (Layout::ListMap(_, item), PathElement::Key(_)) => Layout::of_definition(item),
            _ => Layout::Leaf,
        }
    }

    /// Returns the layout of a field or map entry.
    pub(super) fn child_field(self, name: &str) -> Layout {
        match self {
            Layout::Object(definition) => definition.field(name).map_or(Layout::Leaf, Layout::of_field),
            Layout::Map(inner) => Layout::of_shape(inner),
            _ => Layout::Leaf,
        }
    }

    /// Returns true if `element` is a field of an object type, in contrast to map entries and list items.
    pub(super) fn declares(self, element: &PathElement) -> bool {
        match (self, element) {
            (Layout::Object(definition), PathElement::Field(name)) => definition.field(name).is_some(),
            _ => false,
        }
    }

    /// Returns the parts of a value; `None` for leaves and for values of another type.
    pub(super) fn parts(self, value: &Value) -> Option<Vec<Part<'_>>> {
        match (self, value) {
            (Layout::Object(_) | Layout::Map(_), Value::Object(fields)) => Some(
                fields
                    .iter()
                    .map(|(name, value)| self.part(PathElement::field(name), value))
                    .collect(),
            ),
            (Layout::Set | Layout::ListMap(..), Value::Array(items)) => items
                .iter()
                .map(|item| Some(self.part(self.element_of(item).ok()?, item)))
                .collect(),
            _ => None,
        }
    }

    /// Returns the path element of a list item.
    ///
    /// # Errors
    /// Returns the fault of the first missing or overlong key field.
    pub(super) fn element_of(self, item: &Value) -> Result<PathElement, KeyFault> {
        let Layout::ListMap(keys, definition) = self else {
            return Ok(PathElement::Value(Scalar::of(item)));
        };
        let mut fields = Vec::with_capacity(keys.len());
        for key in keys {
            let value = match item.get(key).filter(|value| !value.is_null()) {
                Some(value) => Scalar::of(value),
                None => {
                    // As upstream, whose schema has the zero value as default of each required field.
                    let field = definition.field(key).ok_or(KeyFault::Absent(key))?;
                    match field.default {
                        Some(default) => Scalar::Text(default.to_owned()),
                        None => Scalar::of(&scalar::zero(&field.shape)),
                    }
                }
            };
            if value.bytes() > KEY_BYTES_MAX {
                return Err(KeyFault::TooLong(key));
            }
            fields.push(((*key).to_owned(), value));
        }
        fields.sort();
        Ok(PathElement::Key(fields))
    }

    fn part(self, element: PathElement, value: &Value) -> Part<'_> {
        let layout = self.child(&element);
        Part {
            element,
            value,
            layout,
        }
    }
}

/// Returns the fields that a value sets.
pub(super) fn fields_of(value: &Value, layout: Layout) -> FieldSet {
    let mut set = FieldSet::default();
    let parts = layout.parts(value).unwrap_or_default();
    for part in &parts {
        if matches!(layout, Layout::Set | Layout::ListMap(..)) && !set.members.insert(part.element.clone()) {
            // Duplicate items are owned together, as a whole.
            set.children.remove(&part.element);
            continue;
        }
        let is_leaf = match part.value {
            Value::Null => true,
            Value::Object(fields) if fields.is_empty() => true,
            value => part.layout.parts(value).is_none(),
        };
        if is_leaf || !layout.declares(&part.element) {
            set.members.insert(part.element.clone());
        }
        set.insert_children(part.element.clone(), fields_of(part.value, part.layout));
    }
    set
}

/// Adds the parent fields of object types for all fields in the set.
pub(super) fn with_parents(set: &FieldSet, layout: Layout) -> FieldSet {
    let mut full = FieldSet {
        members: set.members.clone(),
        children: std::collections::BTreeMap::new(),
    };
    for (element, child) in &set.children {
        if layout.declares(element) {
            full.members.insert(element.clone());
        }
        full.insert_children(element.clone(), with_parents(child, layout.child(element)));
    }
    full
}
