//! Kubernetes' protobuf encoding of objects (`application/vnd.kubernetes.protobuf`), decoded into the JSON tree and
//! encoded from it.
//!
//! A body is a magic number and an envelope (`runtime.Unknown`) with the type and the message of the object.
//! `numbers.txt`, generated with the schema, maps field numbers to fields; the schema defines their types. The
//! decoded tree equals the tree of a Go client's JSON of the same object.

mod decoder;
mod encoder;
mod numbers;
mod wire;

use serde_json::{Map, Value};
use thiserror::Error;

use crate::machinery::decode::VALUES_MAX;
use crate::machinery::schema::{Shape, schema};
use decoder::Decoder;
pub use encoder::{envelope, message, metadata_message, watch_frame, write, write_list};
pub(crate) use encoder::{put_bytes, put_varint};
use wire::{Fields, WireError};

/// Magic number at the start of a body.
const MAGIC: &[u8] = b"k8s\0";

/// Envelope of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'b> {
    /// The `apiVersion` of the object; "" if absent.
    pub api_version: &'b str,
    /// The `kind` of the object; "" if absent.
    pub kind: &'b str,
    message: &'b [u8],
}

/// Failure to decode a protobuf body. The response is 400 `BadRequest`; a retry does not help.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ProtobufError {
    /// The magic number is missing.
    #[error("provided data does not appear to be a protobuf message, expected prefix {MAGIC:?}")]
    Magic,
    /// The object is compressed, or not encoded as protobuf.
    #[error("unsupported encoding {0:?} of the object; expected plain protobuf")]
    Encoding(String),
    /// The type has no message.
    #[error("the type has no protobuf encoding")]
    NoMessage,
    /// The message has more than [`VALUES_MAX`] values.
    #[error("the object has more than {VALUES_MAX} values")]
    TooManyValues,
    /// A message, or the value of a field, is malformed.
    #[error("{}{detail}", path_prefix(path))]
    Malformed {
        /// Path of the field, for example `spec.ports.port`; "" for the object itself.
        path: String,
        /// Description of the defect.
        detail: String,
    },
}

/// Parses the envelope of a body.
///
/// # Errors
/// See [`ProtobufError`].
pub fn open(body: &[u8]) -> Result<Envelope<'_>, ProtobufError> {
    let unknown = body.strip_prefix(MAGIC).ok_or(ProtobufError::Magic)?;
    let mut envelope = Envelope::default();
    for field in Fields::of(unknown) {
        match field? {
            (1, type_meta) => {
                for field in Fields::of(type_meta.bytes()?) {
                    match field? {
                        (1, api_version) => envelope.api_version = utf8(api_version.bytes()?)?,
                        (2, kind) => envelope.kind = utf8(kind.bytes()?)?,
                        _ => {}
                    }
                }
            }
            (2, raw) => envelope.message = raw.bytes()?,
            (3, encoding) => check_encoding(encoding.bytes()?, &[])?,
            (4, content_type) => {
                check_encoding(content_type.bytes()?, b"application/vnd.kubernetes.protobuf")?
            }
            _ => {}
        }
    }
    Ok(envelope)
}

impl Envelope<'_> {
    /// Decodes the message as an object of a definition, by full name. `apiVersion` and `kind` of the envelope come
    /// first.
    ///
    /// # Errors
    /// See [`ProtobufError`].
    pub fn object(&self, definition: &str) -> Result<Value, ProtobufError> {
        let Some(Shape::Object(id)) = schema().shape(definition) else {
            return Err(ProtobufError::NoMessage);
        };
        if numbers::numbers().of(id).is_empty() {
            return Err(ProtobufError::NoMessage);
        }
        let mut object = Map::new();
        for (name, text) in [("apiVersion", self.api_version), ("kind", self.kind)] {
            if !text.is_empty() {
                object.insert(name.to_owned(), text.into());
            }
        }
        Decoder::new(VALUES_MAX).message(self.message, id, &mut object)?;
        Ok(Value::Object(object))
    }
}

impl From<WireError> for ProtobufError {
    fn from(error: WireError) -> Self {
        Self::malformed(error)
    }
}

impl ProtobufError {
    /// Creates an error for a malformed value.
    fn malformed(detail: impl ToString) -> Self {
        Self::Malformed {
            path: String::new(),
            detail: detail.to_string(),
        }
    }

    /// Adds the field `name` in front of the path.
    fn within(self, name: &str) -> Self {
        match self {
            Self::Malformed { path, detail } if path.is_empty() => Self::Malformed {
                path: name.to_owned(),
                detail,
            },
            Self::Malformed { path, detail } => Self::Malformed {
                path: format!("{name}.{path}"),
                detail,
            },
            other => other,
        }
    }
}

fn path_prefix(path: &str) -> String {
    if path.is_empty() {
        String::new()
    } else {
        format!("{path}: ")
    }
}

fn check_encoding(found: &[u8], accepted: &[u8]) -> Result<(), ProtobufError> {
    if found.is_empty() || found == accepted {
        return Ok(());
    }
    Err(ProtobufError::Encoding(
        String::from_utf8_lossy(found).into_owned(),
    ))
}

fn utf8(bytes: &[u8]) -> Result<&str, ProtobufError> {
    std::str::from_utf8(bytes).map_err(|_| ProtobufError::malformed("string is not valid UTF-8"))
}

#[cfg(test)]
mod tests;
