//! The schema of the served kinds: fields, types, and how lists and maps merge.
//!
//! The text in `kinds.json` is generated (see `tools/schema`) and stays in the program's read-only part; only names
//! and types are read into memory, at first use, and descriptions never are.

mod load;

use std::sync::OnceLock;

use crate::kinds::kind::Kind;

/// The generated definitions, OpenAPI v3, one a line.
pub(crate) const DEFINITIONS_TEXT: &str = include_str!("kinds.json");

/// All definitions of the served kinds.
#[derive(Debug)]
pub struct Schema {
    definitions: Vec<Definition>,
}

/// Number of a definition in its [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefinitionId(u16);

/// An object type with its fields.
#[derive(Debug)]
pub struct Definition {
    /// Full name: `io.k8s.api.core.v1.ServicePort`.
    pub name: &'static str,
    /// Whether values of this type are replaced as a whole by server-side apply.
    pub atomic: bool,
    fields: Vec<Field>,
}

/// A field of an object type.
#[derive(Debug)]
pub struct Field {
    /// The name in JSON.
    pub name: &'static str,
    /// The type.
    pub shape: Shape,
    /// How server-side apply treats the field if it is a list.
    pub list: ListType,
    /// Whether server-side apply replaces the field as a whole if it is a map.
    pub atomic: bool,
    /// How a strategic merge patch treats the field.
    pub patch: PatchStrategy,
    /// What the field is taken to be where it is absent and is a key of a [`ListType::Map`].
    pub default: Option<&'static str>,
}

/// The type of a value.
#[derive(Debug, PartialEq)]
pub enum Shape {
    /// Text.
    String,
    /// Base64 text.
    Bytes,
    /// RFC 3339 time in whole seconds.
    Time,
    /// RFC 3339 time with microseconds.
    MicroTime,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// Any number.
    Number,
    /// true or false.
    Boolean,
    /// An amount such as `100m` or `2Gi`, as text or number.
    Quantity,
    /// A number or a text.
    IntOrString,
    /// An object with the fields of a definition.
    Object(DefinitionId),
    /// A list.
    List(Box<Shape>),
    /// A map from text.
    Map(Box<Shape>),
    /// Anything.
    Free,
}

/// How server-side apply treats a list.
#[derive(Debug, PartialEq)]
pub enum ListType {
    /// As one value.
    Atomic,
    /// As a set of values.
    Set,
    /// As a map with these keys.
    Map(Vec<&'static str>),
}

/// How a strategic merge patch treats a field.
#[derive(Debug, Default, PartialEq)]
pub struct PatchStrategy {
    /// A list is merged with the patch's, not replaced by it.
    pub merge: bool,
    /// The key that items of a merged list are told apart by; none for lists of plain values.
    pub merge_key: Option<&'static str>,
    /// Fields that `$retainKeys` does not name are cleared.
    pub retain_keys: bool,
}

/// The schema of everything that is served, read at first use.
pub fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| load::load(DEFINITIONS_TEXT))
}

impl Schema {
    /// The definition of that full name.
    pub fn find(&self, name: &str) -> Option<&Definition> {
        self.id(name).map(|id| self.get(id))
    }

    /// The definition of a served kind.
    pub fn of_kind(&self, kind: &Kind) -> Option<&Definition> {
        self.find(kind.definition)
    }

    /// The definition of that number.
    pub fn get(&self, id: DefinitionId) -> &Definition {
        // Ids come from this schema only, and it never shrinks.
        &self.definitions[usize::from(id.0)]
    }

    /// The shape of values of the definition of that full name.
    pub fn shape(&self, name: &str) -> Option<Shape> {
        self.id(name).map(Shape::Object)
    }

    /// How many definitions there are.
    pub(crate) fn len(&self) -> usize {
        self.definitions.len()
    }

    fn id(&self, name: &str) -> Option<DefinitionId> {
        let at = self.definitions.binary_search_by(|d| d.name.cmp(name)).ok()?;
        u16::try_from(at).ok().map(DefinitionId)
    }
}

impl DefinitionId {
    /// The number, less than [`Schema::len`].
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl Definition {
    /// The fields, ordered by name.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.position(name).and_then(|at| self.fields.get(at))
    }

    /// The position in [`Self::fields`] of the field of that name.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.fields.binary_search_by(|f| f.name.cmp(name)).ok()
    }

    /// The last part of the name: `ServicePort`.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

impl Shape {
    /// The definition, if the shape is an object's.
    pub fn definition<'s>(&self, schema: &'s Schema) -> Option<&'s Definition> {
        match self {
            Self::Object(id) => Some(schema.get(*id)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
