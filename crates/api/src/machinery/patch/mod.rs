//! The three patch formats: JSON patch (RFC 6902), merge patch (RFC 7386) and strategic merge patch.
//!
//! A patch is applied to a copy; what comes out is checked against the schema by [`crate::machinery::decode::conform`], which
//! is the caller's next step.

mod json;
mod list;
mod strategic;
mod tree;

use serde_json::Value;
use thiserror::Error;

use crate::kinds::kind::Kind;
use crate::machinery::decode::{DecodeError, Format, decode_free};

/// The formats of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchFormat {
    /// `application/json-patch+json`.
    Json,
    /// `application/merge-patch+json`.
    Merge,
    /// `application/strategic-merge-patch+json`.
    StrategicMerge,
}

/// Why a patch did not apply. The text is the client's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatchError {
    /// The body is not a patch; sending the same again does not help. Answer: 400 `BadRequest`.
    #[error("error decoding patch: {0}")]
    Syntax(String),
    /// A directive is not used as the format wants it; the same again does not help. Answer: 400 `BadRequest`.
    #[error("{0}")]
    Directive(String),
    /// The patch does not fit the object, for example as a `test` did not hold; it may fit when the object has
    /// changed. Answer: 422 with no reason beyond `Invalid`'s status.
    #[error("{0}")]
    DoesNotApply(String),
    /// The patch is more work than is done for one request. Answer: 413 `RequestEntityTooLarge`.
    #[error("{0}")]
    TooLarge(String),
}

impl PatchError {
    /// The HTTP status of the answer.
    pub fn status_code(&self) -> u16 {
        match self {
            Self::Syntax(_) | Self::Directive(_) => 400,
            Self::DoesNotApply(_) => 422,
            Self::TooLarge(_) => 413,
        }
    }
}

impl PatchFormat {
    /// The format that a `Content-Type` (without parameters) means.
    pub fn from_content_type(content_type: &str) -> Option<Self> {
        match content_type {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::StrategicMerge),
            _ => None,
        }
    }
}

/// Applies the patch in `body` to an object of `kind`.
pub fn apply(object: &Value, body: &[u8], format: PatchFormat, kind: &Kind) -> Result<Value, PatchError> {
    let patch = decode_free(body, Format::Json).map_err(|error| match error {
        DecodeError::TooManyValues => PatchError::TooLarge(error.to_string()),
        other => PatchError::Syntax(other.to_string()),
    })?;
    match format {
        PatchFormat::Json => json::apply(object.clone(), patch),
        PatchFormat::Merge if patch.is_object() => {
            let mut patched = object.clone();
            json_patch::merge(&mut patched, &patch);
            Ok(patched)
        }
        PatchFormat::StrategicMerge if patch.is_object() => strategic::apply(object.clone(), patch, kind),
        PatchFormat::Merge | PatchFormat::StrategicMerge => {
            Err(PatchError::Syntax("a merge patch must be an object".into()))
        }
    }
}

#[cfg(test)]
mod bomb_tests;
#[cfg(test)]
mod tests;
