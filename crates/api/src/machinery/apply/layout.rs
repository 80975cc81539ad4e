//! How values are taken apart into fields, by the schema.

use serde_json::Value;

use super::field_set::{FieldSet, PathElement, Scalar};
use crate::kinds::kind::Kind;
use crate::machinery::schema::{Definition, Field, ListType, Shape, schema};

/// How a value is taken apart.
#[derive(Clone, Copy, Debug)]
pub(super) enum Layout {
    /// Not at all: it is owned as a whole.
    Leaf,
    /// Into the fields of its type.
    Object(&'static Definition),
    /// Into entries of this shape.
    Map(&'static Shape),
    /// Into its items, told apart by their values.
    Set,
    /// Into its items of this type, told apart by these fields.
    ListMap(&'static [&'static str], &'static Definition),
}

/// A part of a value.
pub(super) struct Part<'v> {
    pub(super) element: PathElement,
    pub(super) value: &'v Value,
    pub(super) layout: Layout,
}

impl Layout {
    /// The layout of a whole object.
    pub(super) fn of_kind(kind: &Kind) -> Layout {
        schema().of_kind(kind).map_or(Layout::Leaf, Layout::Object)
    }

    /// The layout of a field of an object type.
    pub(super) fn of_field(field: &'static Field) -> Layout {
        if field.atomic {
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
        match definition.atomic {
            true => Layout::Leaf,
            false => Layout::Object(definition),
        }
    }

    /// The layout of the part that `element` names.
    pub(super) fn below(self, element: &PathElement) -> Layout {
        match (self, element) {
            (layout, PathElement::Field(name)) => layout.below_field(name),
            (Layout::ListMap(_, item), PathElement::Key(_)) => Layout::of_definition(item),
            _ => Layout::Leaf,
        }
    }

    /// The layout of the field or entry of that name.
    pub(super) fn below_field(self, name: &str) -> Layout {
        match self {
            Layout::Object(definition) => definition.field(name).map_or(Layout::Leaf, Layout::of_field),
            Layout::Map(inner) => Layout::of_shape(inner),
            _ => Layout::Leaf,
        }
    }

    /// Whether `element` names a field of an object type, in contrast to entries and items.
    pub(super) fn declares(self, element: &PathElement) -> bool {
        match (self, element) {
            (Layout::Object(definition), PathElement::Field(name)) => definition.field(name).is_some(),
            _ => false,
        }
    }

    /// The parts of a value; none if it is a leaf, or not of the type that it should have.
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

    /// What an item of a list is told apart by; an error names the key field that it lacks.
    pub(super) fn element_of(self, item: &Value) -> Result<PathElement, &'static str> {
        let Layout::ListMap(keys, definition) = self else {
            return Ok(PathElement::Value(Scalar::of(item)));
        };
        let mut fields = Vec::with_capacity(keys.len());
        for key in keys {
            let value = match item.get(key).filter(|value| !value.is_null()) {
                Some(value) => Scalar::of(value),
                None => {
                    let default = definition.field(key).and_then(|field| field.default);
                    Scalar::Text(default.ok_or(*key)?.to_owned())
                }
            };
            fields.push(((*key).to_owned(), value));
        }
        fields.sort();
        Ok(PathElement::Key(fields))
    }

    fn part(self, element: PathElement, value: &Value) -> Part<'_> {
        let layout = self.below(&element);
        Part {
            element,
            value,
            layout,
        }
    }
}

/// The fields that a configuration sets.
pub(super) fn fields_of(value: &Value, layout: Layout) -> FieldSet {
    let mut set = FieldSet::default();
    let parts = layout.parts(value).unwrap_or_default();
    for part in &parts {
        if matches!(layout, Layout::Set | Layout::ListMap(..)) && !set.members.insert(part.element.clone()) {
            // Items that cannot be told apart are owned together, as wholes.
            set.children.remove(&part.element);
            continue;
        }
        let is_whole = match part.value {
            Value::Null => true,
            Value::Object(fields) if fields.is_empty() => true,
            value => part.layout.parts(value).is_none(),
        };
        if is_whole || !layout.declares(&part.element) {
            set.members.insert(part.element.clone());
        }
        set.insert_below(part.element.clone(), fields_of(part.value, part.layout));
    }
    set
}

/// A set with those fields of object types added that have fields in the set below them.
pub(super) fn with_parents(set: &FieldSet, layout: Layout) -> FieldSet {
    let mut full = FieldSet {
        members: set.members.clone(),
        children: std::collections::BTreeMap::new(),
    };
    for (element, child) in &set.children {
        if layout.declares(element) {
            full.members.insert(element.clone());
        }
        full.insert_below(element.clone(), with_parents(child, layout.below(element)));
    }
    full
}
