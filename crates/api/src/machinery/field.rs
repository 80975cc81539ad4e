//! Field errors: what validation says about one field, as `Status` causes carry it.

use std::fmt;

use serde_json::Value;

/// The path of a field in an object, written as Kubernetes does: `spec.ports[0].name`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Path(String);

impl Path {
    /// A path that starts at a top-level field.
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The path of field `name` below this one.
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() {
            Self(name.to_owned())
        } else {
            Self(format!("{}.{name}", self.0))
        }
    }

    /// The path of element `index` of the list at this path.
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// The path of entry `key` of the map at this path: `metadata.annotations[key]`.
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a field is refused; the words are those of `Status.details.causes[].reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The value is not allowed.
    Invalid,
    /// A value is needed and none came.
    Required,
    /// No value may be set here.
    Forbidden,
    /// The value is not one of a fixed set.
    NotSupported,
    /// The value is there twice.
    Duplicate,
    /// The list is too long.
    TooMany,
    /// The value is longer than allowed.
    TooLong,
    /// The value has a JSON type that the field does not take.
    TypeInvalid,
    /// A referenced object does not exist.
    NotFound,
    /// The fault is the server's.
    InternalError,
}

impl Reason {
    /// The word that clients see in a cause.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::Forbidden => "FieldValueForbidden",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TooMany => "FieldValueTooMany",
            Self::TooLong => "FieldValueTooLong",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotFound => "FieldValueNotFound",
            Self::InternalError => "InternalError",
        }
    }
}

/// One fault of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The kind of fault.
    pub reason: Reason,
    /// Where.
    pub path: Path,
    /// The message as a cause carries it, bad value included: `Invalid value: 0: must be …`.
    pub message: String,
}

impl FieldError {
    /// A value that is not allowed; `value` is shown to the client.
    pub fn invalid(path: &Path, value: impl Into<Value>, detail: impl fmt::Display) -> Self {
        let value = value.into();
        Self::of(
            Reason::Invalid,
            path,
            format!("Invalid value: {}: {detail}", shown(&value)),
        )
    }

    /// A missing value.
    pub fn required(path: &Path, detail: impl fmt::Display) -> Self {
        Self::of(Reason::Required, path, with_detail("Required value", detail))
    }

    /// A value where none may be.
    pub fn forbidden(path: &Path, detail: impl fmt::Display) -> Self {
        Self::of(Reason::Forbidden, path, with_detail("Forbidden", detail))
    }

    /// A value outside of a fixed set; the allowed ones are listed in the message.
    pub fn not_supported(path: &Path, value: impl Into<Value>, allowed: &[&str]) -> Self {
        let list: Vec<String> = allowed.iter().map(|a| format!("\"{a}\"")).collect();
        let value = shown(&value.into());
        Self::of(
            Reason::NotSupported,
            path,
            format!(
                "Unsupported value: {value}: supported values: {}",
                list.join(", ")
            ),
        )
    }

    /// A value that stands in the list already.
    pub fn duplicate(path: &Path, value: impl Into<Value>) -> Self {
        Self::of(
            Reason::Duplicate,
            path,
            format!("Duplicate value: {}", shown(&value.into())),
        )
    }

    /// A value that names something which does not exist.
    pub fn not_found(path: &Path, value: impl Into<Value>) -> Self {
        Self::of(
            Reason::NotFound,
            path,
            format!("Not found: {}", shown(&value.into())),
        )
    }

    /// A list of `actual` items where at most `max` may be.
    pub fn too_many(path: &Path, actual: usize, max: usize) -> Self {
        Self::of(
            Reason::TooMany,
            path,
            format!("Too many: {actual}: must have at most {max} items"),
        )
    }

    /// A text of more than `max` bytes.
    pub fn too_long(path: &Path, max: usize) -> Self {
        Self::of(
            Reason::TooLong,
            path,
            format!("Too long: may not be more than {max} bytes"),
        )
    }

    /// A fault of the server's own.
    pub fn internal(path: &Path, detail: impl fmt::Display) -> Self {
        Self::of(Reason::InternalError, path, with_detail("Internal error", detail))
    }

    fn of(reason: Reason, path: &Path, message: String) -> Self {
        Self {
            reason,
            path: path.clone(),
            message,
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// All faults of one object.
pub type FieldErrors = Vec<FieldError>;

fn with_detail(what: &str, detail: impl fmt::Display) -> String {
    let detail = detail.to_string();
    if detail.is_empty() {
        what.to_owned()
    } else {
        format!("{what}: {detail}")
    }
}

/// A value as messages show it; long ones are cut so that a message stays readable.
fn shown(value: &Value) -> String {
    const SHOWN_CHARS_MAX: usize = 300;
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}
