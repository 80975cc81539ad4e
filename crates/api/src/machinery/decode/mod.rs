//! From the bytes of a request to an object tree that has the shape of its kind.
//!
//! One pass reads a text and checks it against the schema. What the schema does not know is left out and
//! reported, `null` reads as absent, and times and quantities come out in the form that clients get back. The
//! tree that results is what the typed API machinery of Kubernetes would have kept.

mod quantity;
pub(crate) mod scalar;
mod walk;

use serde::de::DeserializeSeed;
use serde_json::Value;
use thiserror::Error;

use crate::kinds::kind::Kind;
use crate::machinery::protobuf;
use crate::machinery::schema::{Shape, schema};
pub use quantity::quantity_in_thousandths;
use walk::{At, Findings, Node};

/// Values (objects, lists and what is in them) that an object, a patch or what comes of one may have. A value takes some 70
/// to 250 bytes in memory, but as few as two or three on the wire: the size of a body alone would allow a gigabyte. A
/// ConfigMap of a mebibyte in entries of 20 bytes, with the records of who owns them, stays below.
pub const VALUES_MAX: usize = 1 << 17;

/// The formats of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`, see [`crate::machinery::protobuf`].
    Protobuf,
}

/// An object and what a strict reader would refuse in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object: always a JSON object, `apiVersion` and `kind` first.
    pub object: Value,
    /// `unknown field "spec.foo"`, `duplicate field "spec.ports"`: one warning each, or (strict) one error for all.
    pub strict_faults: Vec<String>,
}

/// Why a body is not an object of the kind. The text is the client's; the answer is 400 `BadRequest`, and sending
/// the same again does not help.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The text is not JSON or YAML, is nested too deeply or has a number that no number type holds.
    #[error("the object provided is unrecognized (must be of type {kind}): {detail}")]
    Syntax {
        /// The expected kind.
        kind: String,
        /// Message of the parser.
        detail: String,
    },
    /// A value has a JSON type that its field does not take, or a form that does not parse.
    #[error("{kind} in version \"{version}\" cannot be handled as a {kind}: {detail}")]
    Mismatch {
        /// The expected kind.
        kind: String,
        /// The expected `apiVersion`.
        version: String,
        /// Which field, what it takes and what came.
        detail: String,
    },
    /// The object's `apiVersion` is not the path's.
    #[error("the API version in the data ({found}) does not match the expected API version ({expected})")]
    Version {
        /// The object's.
        found: String,
        /// The path's.
        expected: String,
    },
    /// The object's `kind` is not the path's.
    #[error("{found} in version \"{version}\" cannot be handled as a {expected}: the kinds do not match")]
    WrongKind {
        /// The object's.
        found: String,
        /// The path's.
        expected: String,
        /// The `apiVersion`.
        version: String,
    },
    /// There are more values than are read. The answer is 413 `RequestEntityTooLarge`.
    #[error("Request entity too large: the object has more than {VALUES_MAX} values")]
    TooManyValues,
    /// Strict validation was asked for, and there are faults.
    #[error("{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding error: {}", faults.join(", "))]
    Strict {
        /// The kind.
        kind: String,
        /// The `apiVersion`.
        version: String,
        /// All of them.
        faults: Vec<String>,
    },
}

/// The name of a type that a body may have: a served kind or one of the kinds of options.
#[derive(Clone, Copy, Debug)]
struct Target<'t> {
    api_version: &'t str,
    kind: &'t str,
    definition: &'t str,
}

/// Reads an object of `kind`. `apiVersion` and `kind` may be left out by the client and are filled in.
pub fn decode(body: &[u8], format: Format, kind: &Kind) -> Result<Decoded, DecodeError> {
    let api_version = kind.api_version();
    let target = Target {
        api_version: &api_version,
        kind: kind.kind,
        definition: kind.definition,
    };
    let mut decoded = target.read(body, format)?;
    target.identify(&mut decoded.object)?;
    Ok(decoded)
}

/// Reads `DeleteOptions`, the body of a DELETE; an empty body is an empty object. Any `apiVersion` is accepted, as
/// clients send the group they delete from.
pub fn decode_delete_options(body: &[u8], format: Format) -> Result<Decoded, DecodeError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Decoded {
            object: Value::Object(serde_json::Map::new()),
            strict_faults: Vec::new(),
        });
    }
    let target = Target {
        api_version: "meta.k8s.io/v1",
        kind: "DeleteOptions",
        definition: "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    };
    target.read(body, format)
}

/// Reads a body of no particular kind, such as a patch: any JSON value, duplicates not looked for.
pub fn decode_free(body: &[u8], format: Format) -> Result<Value, DecodeError> {
    free(VALUES_MAX, |node| read(body, format, node)).map(|(value, _)| value)
}

/// Reads JSON of no particular shape, and tells how many values it has, which may be `values_max`.
pub(crate) fn decode_json_within(json: &[u8], values_max: usize) -> Result<(Value, usize), DecodeError> {
    free(values_max, |node| read(json, Format::Json, node))
}

fn free(
    values_max: usize,
    run: impl FnOnce(Node<'_>) -> Result<Value, String>,
) -> Result<(Value, usize), DecodeError> {
    let findings = Findings::new(values_max);
    let at = At::root();
    let result = run(Node::new(&Shape::Free, &at, &findings));
    match result {
        Ok(value) => Ok((value, findings.values())),
        Err(_) if findings.has_too_many_values() => Err(DecodeError::TooManyValues),
        Err(detail) => Err(DecodeError::Syntax {
            kind: "object".into(),
            detail,
        }),
    }
}

/// Brings a tree that did not come from a body, such as the result of a patch, into the shape of `kind`.
pub fn conform(tree: Value, kind: &Kind) -> Result<Decoded, DecodeError> {
    let api_version = kind.api_version();
    let target = Target {
        api_version: &api_version,
        kind: kind.kind,
        definition: kind.definition,
    };
    let mut decoded = target.walk(|node| node.deserialize(tree).map_err(|e| e.to_string()))?;
    target.identify(&mut decoded.object)?;
    Ok(decoded)
}

impl Decoded {
    /// The object, or an error if there is anything that strict validation refuses (`fieldValidation=Strict`).
    pub fn strict(self, kind: &Kind) -> Result<Value, DecodeError> {
        if self.strict_faults.is_empty() {
            return Ok(self.object);
        }
        Err(DecodeError::Strict {
            kind: kind.kind.into(),
            version: kind.api_version(),
            faults: self.strict_faults,
        })
    }
}

impl Target<'_> {
    fn read(self, body: &[u8], format: Format) -> Result<Decoded, DecodeError> {
        match format {
            Format::Json | Format::Yaml => self.walk(|node| read(body, format, node)),
            Format::Protobuf => self.read_protobuf(body),
        }
    }

    /// Reads a body in protobuf. It has no strict faults: a field that is not known has no name to report.
    fn read_protobuf(self, body: &[u8]) -> Result<Decoded, DecodeError> {
        let envelope = protobuf::open(body).map_err(|error| DecodeError::Syntax {
            kind: self.kind.into(),
            detail: error.to_string(),
        })?;
        // What another kind's message says would make no sense, so that is found out first.
        if !envelope.kind.is_empty() && envelope.kind != self.kind {
            return Err(DecodeError::WrongKind {
                found: envelope.kind.into(),
                expected: self.kind.into(),
                version: envelope.api_version.into(),
            });
        }
        let read = envelope.object(self.definition);
        let object = read.map_err(|error| match error {
            protobuf::ProtobufError::TooManyValues => DecodeError::TooManyValues,
            other => DecodeError::Mismatch {
                kind: self.kind.into(),
                version: self.api_version.into(),
                detail: other.to_string(),
            },
        })?;
        Ok(Decoded {
            object,
            strict_faults: Vec::new(),
        })
    }

    fn walk(self, run: impl FnOnce(Node<'_>) -> Result<Value, String>) -> Result<Decoded, DecodeError> {
        let shape = schema().shape(self.definition).unwrap_or(Shape::Free);
        let findings = Findings::new(VALUES_MAX);
        let at = At::root();
        let result = run(Node::new(&shape, &at, &findings));
        if findings.has_too_many_values() {
            return Err(DecodeError::TooManyValues);
        }
        match (result, findings.take()) {
            (_, (Some(detail), _)) => Err(DecodeError::Mismatch {
                kind: self.kind.into(),
                version: self.api_version.into(),
                detail,
            }),
            (Err(detail), _) => Err(DecodeError::Syntax {
                kind: self.kind.into(),
                detail,
            }),
            (Ok(object), (None, strict_faults)) => Ok(Decoded {
                object,
                strict_faults,
            }),
        }
    }

    /// Checks `apiVersion` and `kind` and puts them first.
    fn identify(self, object: &mut Value) -> Result<(), DecodeError> {
        let Value::Object(fields) = object else {
            return Err(DecodeError::Syntax {
                kind: self.kind.into(),
                detail: "json: an object is needed".into(),
            });
        };
        let said = |fields: &serde_json::Map<String, Value>, name: &str| match fields.get(name) {
            Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
            _ => None,
        };
        let version = said(fields, "apiVersion").unwrap_or_else(|| self.api_version.into());
        let kind = said(fields, "kind").unwrap_or_else(|| self.kind.into());
        if version != self.api_version {
            return Err(DecodeError::Version {
                found: version,
                expected: self.api_version.into(),
            });
        }
        if kind != self.kind {
            return Err(DecodeError::WrongKind {
                found: kind,
                expected: self.kind.into(),
                version,
            });
        }
        fields.shift_insert(0, "apiVersion".into(), version.into());
        fields.shift_insert(1, "kind".into(), kind.into());
        Ok(())
    }
}

/// Runs the walk over a text.
fn read(body: &[u8], format: Format, node: Node<'_>) -> Result<Value, String> {
    match format {
        Format::Json => {
            let mut reader = serde_json::Deserializer::from_slice(body);
            let value = node
                .deserialize(&mut reader)
                .map_err(|e| format!("couldn't get version/kind; json parse error: {e}"))?;
            reader
                .end()
                .map_err(|e| format!("couldn't get version/kind; json parse error: {e}"))?;
            Ok(value)
        }
        Format::Yaml => {
            // A repeated key is reported by the walk, so the parser must let it pass.
            let options = serde_saphyr::options! {
                duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
                with_snippet: false,
            };
            serde_saphyr::with_deserializer_from_slice_with_options(body, options, |reader| {
                node.deserialize(reader)
            })
            .map_err(|e| format!("error converting YAML to JSON: yaml: {e}"))
        }
        Format::Protobuf => Err("protobuf has no form for a value of no kind".to_owned()),
    }
}

#[cfg(test)]
mod tests;
