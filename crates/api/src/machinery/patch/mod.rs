//! The patch formats of Kubernetes: JSON patch (RFC 6902), merge patch (RFC 7386) and strategic merge patch.
//!
//! A patch is applied to a copy of the object. Its result is not checked yet:
//! [`decode::conform`](crate::decode::conform) compares it with the schema.
//!
//! # Example
//!
//! ```
//! use api::kind;
//! use api::patch::{PatchFormat, apply};
//! use serde_json::json;
//!
//! let services = kind::find("", "v1", "services").expect("the kind Service");
//! let service = json!({"spec": {"ports": [{"port": 80, "nodePort": 30080}, {"port": 443}]}});
//! let patch = br#"{"spec": {"ports": [{"port": 80, "name": "http"}]}}"#;
//!
//! // A strategic merge patch merges Service ports by port number.
//! let patched = apply(&service, patch, PatchFormat::StrategicMerge, services)?;
//! assert_eq!(
//!     patched.object,
//!     json!({"spec": {"ports": [{"port": 80, "nodePort": 30080, "name": "http"}, {"port": 443}]}})
//! );
//! # Ok::<(), api::patch::PatchError>(())
//! ```

mod duplicate_fields;
mod go_notation;
mod json;
mod list;
mod operation;
mod strategic;
mod tree;

use serde_json::Value;
use thiserror::Error;

use crate::kinds::kind::Kind;
use crate::machinery::decode::{DecodeError, Format, decode_untyped};
use duplicate_fields::DuplicateFields;
pub use go_notation::go_notation;

/// Format of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchFormat {
    /// `application/json-patch+json`.
    Json,
    /// `application/merge-patch+json`.
    Merge,
    /// `application/strategic-merge-patch+json`.
    StrategicMerge,
}

/// Failure to apply a patch. The message is sent to the client.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatchError {
    /// The body is not a patch. A retry does not help. The response is 400 `BadRequest`.
    #[error("error decoding patch: {0}")]
    Syntax(String),
    /// A directive is misused. A retry does not help. The response is 400 `BadRequest`.
    #[error("{0}")]
    Directive(String),
    /// A directive is unknown, or an item of a list has no merge key. As upstream, the response is 500 without a reason.
    #[error("{0}")]
    Unhandled(String),
    /// The patch does not match the object, for example because a `test` operation failed. It may apply after the
    /// object has changed. The response is 422 `Invalid`.
    #[error("{0}")]
    DoesNotApply(String),
    /// The patch exceeds a limit on work or size. The response is 413 `RequestEntityTooLarge`.
    #[error("{0}")]
    TooLarge(String),
}

impl PatchError {
    /// Returns the HTTP status of the response.
    pub fn status_code(&self) -> u16 {
        match self {
            Self::Syntax(_) | Self::Directive(_) => 400,
            Self::Unhandled(_) => 500,
            Self::DoesNotApply(_) => 422,
            Self::TooLarge(_) => 413,
        }
    }
}

impl PatchFormat {
    /// Returns the format of a `Content-Type` without parameters.
    pub fn from_content_type(content_type: &str) -> Option<Self> {
        match content_type {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::StrategicMerge),
            _ => None,
        }
    }
}

/// The result of a patch.
#[derive(Clone, Debug, PartialEq)]
pub struct Patched {
    /// The object.
    pub object: Value,
    /// Duplicate fields of the patch, and those that a JSON patch brings into the object, as violations of strict
    /// validation.
    pub strict_errors: Vec<String>,
}

/// Applies the patch in `body` to an object of `kind`.
///
/// # Errors
/// See [`PatchError`].
pub fn apply(object: &Value, body: &[u8], format: PatchFormat, kind: &Kind) -> Result<Patched, PatchError> {
    let decoded = decode_untyped(body, Format::Json).map_err(|error| match error {
        DecodeError::TooManyValues => PatchError::TooLarge(error.to_string()),
        other => PatchError::Syntax(other.to_string()),
    })?;
    let (patch, mut strict_errors) = (decoded.object, decoded.strict_errors);
    let object = match format {
        PatchFormat::Json => {
            let mut duplicates = DuplicateFields::of(&strict_errors);
            strict_errors.extend(operation::unknown_fields(&patch));
            // As upstream: each error names the format.
            for error in &mut strict_errors {
                *error = format!("json patch {error}");
            }
            let patched = json::apply(object.clone(), patch, &mut duplicates)?;
            strict_errors.extend(duplicates.strict_errors(&patched, kind));
            patched
        }
        PatchFormat::Merge if patch.is_object() => {
            let mut patched = object.clone();
            json_patch::merge(&mut patched, &patch);
            patched
        }
        PatchFormat::StrategicMerge if patch.is_object() => strategic::apply(object.clone(), patch, kind)?,
        // As upstream: `null` changes nothing.
        PatchFormat::StrategicMerge if patch.is_null() => object.clone(),
        PatchFormat::Merge | PatchFormat::StrategicMerge => {
            return Err(PatchError::Syntax("expected an object as merge patch".into()));
        }
    };
    Ok(Patched {
        object,
        strict_errors,
    })
}

#[cfg(test)]
mod tests;
