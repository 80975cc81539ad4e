//! The schema of the served kinds: fields, types, and merge rules of lists and maps.
//!
//! `kinds.json` is generated (see `tools/schema`) and embedded as read-only text. Names and types are parsed at first
//! use; descriptions are not loaded.

mod load;

use std::sync::OnceLock;

use crate::kinds::kind::Kind;

/// The generated OpenAPI v3 definitions, one in each line.
pub(crate) const DEFINITIONS_TEXT: &str = include_str!("kinds.json");

/// All definitions of the served kinds.
#[derive(Debug)]
pub struct Schema {
    definitions: Vec<Definition>,
}

/// Index of a definition in its [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefinitionId(u16);

/// An object type.
#[derive(Debug)]
pub struct Definition {
    /// Full name, for example `io.k8s.api.core.v1.ServicePort`.
    pub name: &'static str,
    /// True if server-side apply replaces values of this type as a whole.
    pub is_atomic: bool,
    fields: Vec<Field>,
}

/// A field of an object type.
#[derive(Debug)]
pub struct Field {
    /// Name in JSON.
    pub name: &'static str,
    /// Type of the value.
    pub shape: Shape,
    /// Treatment of a list by server-side apply.
    pub list: ListType,
    /// True if server-side apply replaces a map as a whole.
    pub is_atomic: bool,
    /// Treatment by a strategic merge patch.
    pub patch: PatchStrategy,
    /// Value of an absent key field of a [`ListType::Map`].
    pub default: Option<&'static str>,
}

/// The type of a value.
#[derive(Debug, PartialEq)]
pub enum Shape {
    /// A string.
    String,
    /// Bytes, as base64.
    Bytes,
    /// RFC 3339 timestamp in whole seconds.
    Time,
    /// RFC 3339 timestamp with microseconds.
    MicroTime,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// Any number.
    Number,
    /// A boolean.
    Boolean,
    /// A quantity such as `100m` or `2Gi`, as string or number.
    Quantity,
    /// An integer or a string.
    IntOrString,
    /// An object with the fields of a definition.
    Object(DefinitionId),
    /// A list.
    List(Box<Shape>),
    /// A map with string keys.
    Map(Box<Shape>),
    /// Free-form JSON.
    Free,
}

/// Treatment of a list by server-side apply.
#[derive(Debug, PartialEq)]
pub enum ListType {
    /// Replaced as a whole.
    Atomic,
    /// Merged as a set of values.
    Set,
    /// Merged as a map with these keys.
    Map(Vec<&'static str>),
}

/// Treatment of a field by a strategic merge patch.
#[derive(Debug, Default, PartialEq)]
pub struct PatchStrategy {
    /// True if lists are merged instead of replaced.
    pub merges: bool,
    /// Key field of list items; `None` for lists of scalars.
    pub merge_key: Option<&'static str>,
    /// True if `$retainKeys` clears the fields that it does not list.
    pub retains_keys: bool,
}

/// Returns the schema of all served kinds, parsed at first use.
pub fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| load::load(DEFINITIONS_TEXT))
}

impl Schema {
    /// Returns a definition by full name.
    pub fn find(&self, name: &str) -> Option<&Definition> {
        self.id(name).map(|id| self.get(id))
    }

    /// Returns the definition of a served kind.
    pub fn of_kind(&self, kind: &Kind) -> Option<&Definition> {
        self.find(kind.definition)
    }

    /// Returns a definition by its ID.
    pub fn get(&self, id: DefinitionId) -> &Definition {
        // Only this schema creates IDs, so the index is valid.
        &self.definitions[usize::from(id.0)]
    }

    /// Returns the shape of a definition, by full name.
    pub fn shape(&self, name: &str) -> Option<Shape> {
        self.id(name).map(Shape::Object)
    }

    /// Returns the number of definitions.
    pub(crate) fn len(&self) -> usize {
        self.definitions.len()
    }

    fn id(&self, name: &str) -> Option<DefinitionId> {
        let index = self
            .definitions
            .binary_search_by(|definition| definition.name.cmp(name))
            .ok()?;
        u16::try_from(index).ok().map(DefinitionId)
    }
}

impl DefinitionId {
    /// Returns the index, less than [`Schema::len`].
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl Definition {
    /// Returns the fields, sorted by name.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns a field by name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.position(name).and_then(|position| self.fields.get(position))
    }

    /// Returns the position of a field in [`Self::fields`].
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.fields.binary_search_by(|field| field.name.cmp(name)).ok()
    }

    /// Returns the last part of the name, for example `ServicePort`.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

impl Shape {
    /// Returns the definition, if the shape is an object type.
    pub fn definition<'s>(&self, schema: &'s Schema) -> Option<&'s Definition> {
        match self {
            Self::Object(id) => Some(schema.get(*id)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
