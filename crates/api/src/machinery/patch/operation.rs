//! One operation of a JSON patch, as upstream applies it (`evanphx/json-patch` 4).
//!
//! Upstream differs from RFC 6902:
//!
//! - `replace` and `copy` accept a missing field of an object.
//! - `test` treats a missing field as `null`.
//! - An absent `value` is `null`.
//! - A negative index counts from the end of a list.

use std::fmt;

use serde_json::{Map, Value};

use super::PatchError;

/// Maximum number of operations in a patch: upstream's `maxJSONPatchOperations` (`endpoints/handlers/patch.go`).
const OPERATIONS_MAX: usize = 10_000;

/// Maximum number of unknown fields of a patch that are reported, so that the response stays readable.
const UNKNOWN_FIELDS_MAX: usize = 100;

/// An operation.
#[derive(Debug)]
pub(super) struct Operation {
    /// The value that the operation changes or tests.
    pub(super) path: Pointer,
    /// The change.
    pub(super) action: Action,
}

/// The change that an operation makes.
#[derive(Debug)]
pub(super) enum Action {
    Add(Value),
    Remove,
    Replace(Value),
    Move(Pointer),
    Copy(Pointer),
    Test(Value),
}

/// A JSON pointer (RFC 6901). Text without a leading `/` points nowhere.
#[derive(Clone, Debug)]
pub(super) struct Pointer(String);

/// Failure of an operation, with upstream's words.
#[derive(Debug)]
pub(super) enum Fault {
    /// The parent of the path does not exist.
    MissingPath(String),
    /// The field does not exist.
    MissingKey(String),
    /// The text is not the index of a list.
    NotAnIndex(String),
    /// The index is outside of the list.
    InvalidIndex(String),
    /// A `test` found another value.
    TestFailed(String),
    /// The whole document can become an object or a list only.
    NotADocument,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingPath(path) => {
                write!(
                    f,
                    "operation does not apply: doc is missing path: {path:?}: missing value"
                )
            }
            Self::MissingKey(key) => write!(f, "Unable to remove nonexistent key: {key}: missing value"),
            Self::NotAnIndex(key) => write!(f, "value was not a proper array index: {key:?}"),
            Self::InvalidIndex(key) => {
                write!(
                    f,
                    "Unable to access invalid index: {key}: invalid index referenced"
                )
            }
            Self::TestFailed(path) => write!(f, "testing value {path} failed: test failed"),
            Self::NotADocument => f.write_str("replace operation value must be object or array"),
        }
    }
}

/// Parses a patch. `null` is an empty patch. Operations of an unknown kind are `None`: upstream finds them when it
/// applies them.
///
/// # Errors
/// [`PatchError::TooLarge`] for too many operations, [`PatchError::Syntax`] if the patch is not a list of objects
/// or if `op`, `path` or `from` is not text.
pub(super) fn parse(patch: Value) -> Result<Vec<Option<Operation>>, PatchError> {
    let operations = match patch {
        Value::Null => Vec::new(),
        Value::Array(operations) => operations,
        other => {
            return Err(PatchError::Syntax(format!(
                "expected a list of operations, not {}",
                kind_of(&other)
            )));
        }
    };
    if operations.len() > OPERATIONS_MAX {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.len()
        )));
    }
    operations.into_iter().map(Operation::parse).collect()
}

/// Returns the unknown fields of the operations, as violations of strict validation.
pub(super) fn unknown_fields(patch: &Value) -> Vec<String> {
    const FIELDS: [&str; 4] = ["op", "path", "from", "value"];
    let operations = patch.as_array().map_or(&[][..], Vec::as_slice);
    let named = operations
        .iter()
        .enumerate()
        .filter_map(|(at, operation)| Some((at, operation.as_object()?)));
    named
        .flat_map(|(at, fields)| fields.keys().map(move |name| (at, name)))
        .filter(|(_, name)| !FIELDS.contains(&name.as_str()))
        .take(UNKNOWN_FIELDS_MAX)
        .map(|(at, name)| format!("unknown field \"[{at}].{name}\""))
        .collect()
}

impl Operation {
    fn parse(operation: Value) -> Result<Option<Self>, PatchError> {
        let mut fields = match operation {
            Value::Object(fields) => fields,
            Value::Null => Map::new(),
            other => {
                return Err(PatchError::Syntax(format!(
                    "expected an operation, not {}",
                    kind_of(&other)
                )));
            }
        };
        let mut text = |name: &str| match fields.shift_remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(PatchError::Syntax(format!(
                "json: cannot unmarshal {} into Go struct field jsonPatchOp.{name} of type string",
                kind_of(&other)
            ))),
        };
        let (kind, path, from) = (text("op")?, text("path")?, text("from")?);
        // An absent pointer points nowhere, so the operation does not apply.
        let pointer = |text: Option<String>| Pointer(text.unwrap_or_else(|| "missing".to_owned()));
        let value = fields.shift_remove("value").unwrap_or(Value::Null);
        let action = match kind.as_deref() {
            Some("add") => Action::Add(value),
            Some("remove") => Action::Remove,
            Some("replace") => Action::Replace(value),
            Some("move") => Action::Move(pointer(from)),
            Some("copy") => Action::Copy(pointer(from)),
            Some("test") => Action::Test(value),
            _ => return Ok(None),
        };
        let path = pointer(path);
        Ok(Some(Self { path, action }))
    }

    /// Applies the operation.
    ///
    /// # Errors
    /// See [`Fault`]. The document may be changed in part.
    pub(super) fn apply(self, document: &mut Value) -> Result<(), Fault> {
        let path = self.path;
        match self.action {
            Action::Add(value) => path.add(document, value),
            Action::Remove => path.remove(document).map(|_| ()),
            Action::Replace(value) if path.0.is_empty() => {
                if !value.is_object() && !value.is_array() {
                    return Err(Fault::NotADocument);
                }
                *document = value;
                Ok(())
            }
            Action::Replace(value) => path.set(document, value),
            Action::Move(from) => {
                let value = from.remove(document)?;
                path.add(document, value)
            }
            Action::Copy(from) => {
                let value = from.get(document)?.clone();
                path.add(document, value)
            }
            Action::Test(expected) => {
                let found = if path.0.is_empty() {
                    document
                } else {
                    path.get(document)?
                };
                if *found == expected {
                    Ok(())
                } else {
                    Err(Fault::TestFailed(path.0))
                }
            }
        }
    }
}

static NULL: Value = Value::Null;

impl Pointer {
    /// Returns the number of segments.
    pub(super) fn depth(&self) -> usize {
        self.0.bytes().filter(|byte| *byte == b'/').count()
    }

    /// Returns the value at the pointer.
    pub(super) fn find<'d>(&self, document: &'d Value) -> Option<&'d Value> {
        self.get(document).ok()
    }

    /// Returns the list that contains the value, and the last segment.
    pub(super) fn list<'d>(&self, document: &'d Value) -> Option<(&'d [Value], String)> {
        let (parent, last) = self.container(document)?;
        Some((parent.as_array()?.as_slice(), last))
    }

    /// Returns the number of fields of the object that contains the value; 0 if no object does.
    pub(super) fn fields(&self, document: &Value) -> usize {
        let parent = self.container(document);
        parent
            .and_then(|(parent, _)| parent.as_object())
            .map_or(0, Map::len)
    }

    /// Returns true if the other pointer is this one, or one into its value.
    pub(super) fn is_same_or_above(&self, other: &Pointer) -> bool {
        let rest = other.0.strip_prefix(&*self.0);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns true if the document has the value. The end of a list (`-`) counts as present.
    pub(super) fn is_in(&self, document: &Value) -> bool {
        match self.container(document) {
            Some((Value::Array(_), _)) => true,
            Some((parent, last)) => parent.get(&last).is_some_and(|value| !value.is_null()),
            None => false,
        }
    }

    /// Returns the path of the value in messages: `spec.ports[0]`. The end of a list has the index of a new item.
    pub(super) fn field_path(&self, document: &Value) -> Option<String> {
        let (parent, last) = self.split()?;
        let mut path = String::new();
        let mut value = document;
        for segment in &parent {
            push_step(&mut path, value, segment)?;
            value = member(value, segment)?;
        }
        push_step(&mut path, value, &last)?;
        Some(path)
    }

    fn container<'d>(&self, document: &'d Value) -> Option<(&'d Value, String)> {
        let (parent, last) = self.split()?;
        let parent = parent
            .iter()
            .try_fold(document, |value, segment| member(value, segment))?;
        Some((parent, last))
    }

    /// Splits into the segments of the parent and the last one, both decoded.
    fn split(&self) -> Option<(Vec<String>, String)> {
        // Upstream ignores text before the first separator.
        let (_, rest) = self.0.split_once('/')?;
        let mut segments: Vec<String> = rest.split('/').map(unescape).collect();
        let last = segments.pop()?;
        Some((segments, last))
    }

    fn missing(&self) -> Fault {
        Fault::MissingPath(self.0.clone())
    }

    fn get<'d>(&self, document: &'d Value) -> Result<&'d Value, Fault> {
        let (parent, last) = self.split().ok_or_else(|| self.missing())?;
        let found = parent
            .iter()
            .try_fold(document, |value, segment| member(value, segment));
        match found.ok_or_else(|| self.missing())? {
            Value::Object(fields) => Ok(fields.get(&last).unwrap_or(&NULL)),
            Value::Array(items) => {
                let index = index_of(&last, items.len())?;
                items.get(index).ok_or(Fault::InvalidIndex(last))
            }
            _ => Err(self.missing()),
        }
    }

    fn parent<'d>(&self, document: &'d mut Value) -> Result<(&'d mut Value, String), Fault> {
        let (parent, last) = self.split().ok_or_else(|| self.missing())?;
        let mut value = document;
        for segment in &parent {
            value = member_mut(value, segment).ok_or_else(|| self.missing())?;
        }
        Ok((value, last))
    }

    fn add(&self, document: &mut Value, value: Value) -> Result<(), Fault> {
        match self.parent(document)? {
            (Value::Object(fields), last) => {
                fields.insert(last, value);
                Ok(())
            }
            (Value::Array(items), last) if last == "-" => {
                items.push(value);
                Ok(())
            }
            (Value::Array(items), last) => {
                let index = index_of(&last, items.len() + 1)?;
                if index > items.len() {
                    return Err(Fault::InvalidIndex(last));
                }
                items.insert(index, value);
                Ok(())
            }
            _ => Err(self.missing()),
        }
    }

    fn set(&self, document: &mut Value, value: Value) -> Result<(), Fault> {
        match self.parent(document)? {
            (Value::Object(fields), last) => {
                fields.insert(last, value);
                Ok(())
            }
            (Value::Array(items), last) => {
                let index = index_of(&last, items.len())?;
                *items.get_mut(index).ok_or(Fault::InvalidIndex(last))? = value;
                Ok(())
            }
            _ => Err(self.missing()),
        }
    }

    fn remove(&self, document: &mut Value) -> Result<Value, Fault> {
        match self.parent(document)? {
            (Value::Object(fields), last) => fields.shift_remove(&last).ok_or(Fault::MissingKey(last)),
            (Value::Array(items), last) => {
                let index = index_of(&last, items.len())?;
                if index >= items.len() {
                    return Err(Fault::InvalidIndex(last));
                }
                Ok(items.remove(index))
            }
            _ => Err(self.missing()),
        }
    }
}

/// Appends the step from a container to its member.
fn push_step(path: &mut String, container: &Value, segment: &str) -> Option<()> {
    if let Value::Array(items) = container {
        let index = if segment == "-" {
            items.len()
        } else {
            index_of(segment, items.len()).ok()?
        };
        path.push_str(&format!("[{index}]"));
        return Some(());
    }
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(segment);
    Some(())
}

fn member<'d>(value: &'d Value, segment: &str) -> Option<&'d Value> {
    match value {
        Value::Object(fields) => fields.get(segment),
        Value::Array(items) => items.get(index_of(segment, items.len()).ok()?),
        _ => None,
    }
}

fn member_mut<'d>(value: &'d mut Value, segment: &str) -> Option<&'d mut Value> {
    match value {
        Value::Object(fields) => fields.get_mut(segment),
        Value::Array(items) => {
            let index = index_of(segment, items.len()).ok()?;
            items.get_mut(index)
        }
        _ => None,
    }
}

/// Parses the index of a list of `length`. Negative indexes count from the end.
fn index_of(segment: &str, length: usize) -> Result<usize, Fault> {
    let index: i64 = segment
        .parse()
        .map_err(|_| Fault::NotAnIndex(segment.to_owned()))?;
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let index = if index < 0 {
        index.saturating_add(length)
    } else {
        index
    };
    usize::try_from(index).map_err(|_| Fault::InvalidIndex(segment.to_owned()))
}

fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// Names the JSON type of a value, as upstream's messages do.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
