//! Field errors: the result of validation for one field, in the form of `Status` causes.

use std::fmt;

use serde_json::Value;

/// Path of a field in an object, as Kubernetes writes it: `spec.ports[0].name`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Path(String);

impl Path {
    /// Creates the path of a top-level field.
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Returns the path of the field `name` below this one.
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() {
            Self(name.to_owned())
        } else {
            Self(format!("{}.{name}", self.0))
        }
    }

    /// Returns the path of the element `index` of the list at this path.
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// Returns the path of the entry `key` of the map at this path: `metadata.annotations[key]`.
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reason of a field error, as in `Status.details.causes[].reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Value that is not allowed.
    Invalid,
    /// Missing value.
    Required,
    /// Value where none is allowed.
    Forbidden,
    /// Value outside of a fixed set.
    NotSupported,
    /// Duplicate value.
    Duplicate,
    /// List that is too long.
    TooMany,
    /// Text that is too long.
    TooLong,
    /// Value of a JSON type that the field does not accept.
    TypeInvalid,
    /// Reference to an object that does not exist.
    NotFound,
    /// Fault of the server.
    InternalError,
}

impl Reason {
    /// Returns the text of the reason in a cause.
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

/// An invalid field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Machine-readable cause.
    pub reason: Reason,
    /// Path of the field.
    pub path: Path,
    /// Message of the cause, with the value: `Invalid value: 0: must be …`.
    pub message: String,
}

impl FieldError {
    /// Returns the error of a value that is not allowed. The message contains `value`.
    pub fn invalid(path: &Path, value: impl Into<Value>, detail: impl fmt::Display) -> Self {
        let value = value.into();
        Self::of(
            Reason::Invalid,
            path,
            format!("Invalid value: {}: {detail}", format_value(&value)),
        )
    }

    /// Returns the error of an invalid value that is not shown.
    pub fn invalid_whole(path: &Path, detail: impl fmt::Display) -> Self {
        Self::of(Reason::Invalid, path, format!("Invalid value: {detail}"))
    }

    /// Returns the error of a missing value.
    pub fn required(path: &Path, detail: impl fmt::Display) -> Self {
        Self::of(Reason::Required, path, with_detail("Required value", detail))
    }

    /// Returns the error of a value where none is allowed.
    pub fn forbidden(path: &Path, detail: impl fmt::Display) -> Self {
        Self::of(Reason::Forbidden, path, with_detail("Forbidden", detail))
    }

    /// Returns the error of a value outside of the set `allowed`, which the message lists.
    pub fn not_supported(path: &Path, value: impl Into<Value>, allowed: &[&str]) -> Self {
        let list: Vec<String> = allowed.iter().map(|value| format!("\"{value}\"")).collect();
        let value = format_value(&value.into());
        Self::of(
            Reason::NotSupported,
            path,
            format!(
                "Unsupported value: {value}: supported values: {}",
                list.join(", ")
            ),
        )
    }

    /// Returns the error of a value that is in the list already.
    pub fn duplicate(path: &Path, value: impl Into<Value>) -> Self {
        Self::of(
            Reason::Duplicate,
            path,
            format!("Duplicate value: {}", format_value(&value.into())),
        )
    }

    /// Returns the error of a reference to an object that does not exist.
    pub fn not_found(path: &Path, value: impl Into<Value>) -> Self {
        Self::of(
            Reason::NotFound,
            path,
            format!("Not found: {}", format_value(&value.into())),
        )
    }

    /// Returns the error of a list of `actual` items with at most `max` allowed.
    pub fn too_many(path: &Path, actual: usize, max: usize) -> Self {
        Self::of(
            Reason::TooMany,
            path,
            format!("Too many: {actual}: must have at most {max} items"),
        )
    }

    /// Returns the error of a text of more than `max` bytes.
    pub fn too_long(path: &Path, max: usize) -> Self {
        Self::of(
            Reason::TooLong,
            path,
            format!("Too long: may not be more than {max} bytes"),
        )
    }

    /// Returns the error of the server.
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

/// All field errors of one object.
pub type FieldErrors = Vec<FieldError>;

fn with_detail(subject: &str, detail: impl fmt::Display) -> String {
    let detail = detail.to_string();
    if detail.is_empty() {
        subject.to_owned()
    } else {
        format!("{subject}: {detail}")
    }
}

/// Formats a value for a message. Long values are cut, so that the message stays readable.
fn format_value(value: &Value) -> String {
    const SHOWN_CHARACTERS_MAX: usize = 300;
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_CHARACTERS_MAX) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}
