//! Kubernetes' protobuf form of objects (`application/vnd.kubernetes.protobuf`), read into the same JSON tree as
//! the text forms, and written from it.
//!
//! A body is a magic number and an envelope (`runtime.Unknown`) that names the kind and holds the object's message.
//! What a field number means is in `numbers.txt`, generated beside the schema; what the values are is the schema's.
//! The tree that results is the one that a Go client's JSON of the same object is read as.

mod message;
mod numbers;
mod wire;
mod write;

use serde_json::{Map, Value};
use thiserror::Error;

use crate::machinery::decode::VALUES_MAX;
use crate::machinery::schema::{Shape, schema};
use message::Reader;
use wire::{Fields, WireError};
pub use write::{enveloped, message, metadata_message, watch_frame, write, write_list};
pub(crate) use write::{put_bytes, put_varint};

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// The envelope of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'b> {
    /// The object's `apiVersion`, "" if the client leaves it out.
    pub api_version: &'b str,
    /// The object's `kind`, "" if the client leaves it out.
    pub kind: &'b str,
    message: &'b [u8],
}

/// Why a body is not an object in protobuf. The bytes are the client's; the answer is 400 `BadRequest`, and sending
/// the same again does not help.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ProtobufError {
    /// The body does not begin as such bodies do.
    #[error("provided data does not appear to be a protobuf message, expected prefix {MAGIC:?}")]
    Magic,
    /// The object in the envelope is compressed or is not protobuf.
    #[error("the object is encoded as {0:?}, only plain protobuf is read")]
    Encoding(String),
    /// No message is known for the type.
    #[error("there is no protobuf form of this type")]
    NoMessage,
    /// The message has more values than are read.
    #[error("the object has more than {VALUES_MAX} values")]
    TooManyValues,
    /// A message or the value of a field is malformed.
    #[error("{}{detail}", prefix(path))]
    Malformed {
        /// The field: `spec.ports.port`, "" for the object itself.
        path: String,
        /// What is wrong.
        detail: String,
    },
}

/// Opens the envelope of a body.
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
            (3, encoding) => plain(encoding.bytes()?, &[])?,
            (4, content_type) => plain(content_type.bytes()?, b"application/vnd.kubernetes.protobuf")?,
            _ => {}
        }
    }
    Ok(envelope)
}

impl Envelope<'_> {
    /// Reads the message as an object of the definition of that full name; `apiVersion` and `kind`, as far as the
    /// envelope has them, come first.
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
        Reader::new(VALUES_MAX).message(self.message, id, &mut object)?;
        Ok(Value::Object(object))
    }
}

impl From<WireError> for ProtobufError {
    fn from(error: WireError) -> Self {
        Self::malformed(error)
    }
}

impl ProtobufError {
    /// Something is wrong at this place.
    fn malformed(detail: impl ToString) -> Self {
        Self::Malformed {
            path: String::new(),
            detail: detail.to_string(),
        }
    }

    /// The same, seen from the object that has the place in its field `name`.
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

fn prefix(path: &str) -> String {
    if path.is_empty() {
        String::new()
    } else {
        format!("{path}: ")
    }
}

fn plain(found: &[u8], accepted: &[u8]) -> Result<(), ProtobufError> {
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
