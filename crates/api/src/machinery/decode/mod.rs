//! Decoding of request bodies into object trees with the fields of their kind.
//!
//! One pass parses a text and checks it against the schema. Unknown fields are dropped and reported, `null` means
//! absent, and timestamps and quantities are normalized. The result is the tree that upstream's typed API machinery
//! would keep.
//!
//! # Example
//!
//! ```
//! use api::decode::{Format, decode};
//! use api::kind;
//! use serde_json::json;
//!
//! let services = kind::find("", "v1", "services").expect("the kind Service");
//! let body = br#"{"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}], "color": "red"}}"#;
//!
//! let decoded = decode(body, Format::Json, services)?;
//! assert_eq!(decoded.object["kind"], "Service");
//! assert_eq!(decoded.object["spec"], json!({"ports": [{"port": 80}]}));
//! assert_eq!(decoded.strict_errors, [r#"unknown field "spec.color""#]);
//! # Ok::<(), api::decode::DecodeError>(())
//! ```

mod findings;
mod location;
mod numbers;
mod quantity;
pub(crate) mod scalar;
mod walk;
mod yaml;

use serde::de::DeserializeSeed;
use serde_json::Value;
use thiserror::Error;

use crate::kinds::kind::Kind;
use crate::machinery::protobuf;
use crate::machinery::schema::{Shape, schema};
use findings::Findings;
use location::Location;
pub use numbers::convert_numbers;
pub use quantity::quantity_in_thousandths;
use walk::Node;

/// Maximum number of values (objects, lists and scalars) of an object, a patch, or the result of a patch. A value
/// uses 70 to 250 bytes of memory, but as little as two bytes in a body. A limit of the body alone would permit a
/// gigabyte of memory. A ConfigMap of 1 MiB in entries of 20 bytes, with its managed fields, stays below.
pub const VALUES_MAX: usize = 1 << 17;

/// Format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`, see [`crate::protobuf`].
    Protobuf,
}

/// A decoded object, and its violations of strict validation.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object, with `apiVersion` and `kind` first.
    pub object: Value,
    /// Violations, for example `unknown field "spec.foo"` and `duplicate field "spec.ports"`. Each violation becomes
    /// a warning. With `fieldValidation=Strict`, all violations become one error.
    pub strict_errors: Vec<String>,
}

/// Failure to decode a body. The response is 400 `BadRequest` with this message, except for
/// [`DecodeError::TooManyValues`]. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The body is not valid JSON or YAML, is nested too deeply, or contains a number that no number type represents.
    #[error("the object provided is unrecognized (must be of type {kind}): {detail}")]
    Syntax {
        /// The expected kind.
        kind: String,
        /// The parser's message.
        detail: String,
    },
    /// A value has the wrong JSON type, or a malformed text.
    #[error("{kind} in version \"{version}\" cannot be handled as a {kind}: {detail}")]
    Mismatch {
        /// The expected kind.
        kind: String,
        /// The expected version, without the group.
        version: String,
        /// The field, the expected type and the found value.
        detail: String,
    },
    /// The `apiVersion` of the object differs from that of the path.
    #[error("the API version in the data ({found}) does not match the expected API version ({expected})")]
    Version {
        /// The `apiVersion` of the object.
        found: String,
        /// The `apiVersion` of the path.
        expected: String,
    },
    /// The `kind` of the object differs from that of the path.
    #[error("{found} in version \"{version}\" cannot be handled as a {expected}: the kinds do not match")]
    WrongKind {
        /// The `kind` of the object.
        found: String,
        /// The `kind` of the path.
        expected: String,
        /// The `apiVersion` of the object.
        version: String,
    },
    /// The object has more than [`VALUES_MAX`] values. The response is 413 `RequestEntityTooLarge`.
    #[error("Request entity too large: the object has more than {VALUES_MAX} values")]
    TooManyValues,
    /// Strict validation is requested, and the object violates it.
    #[error("{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding error: {}", errors.join(", "))]
    Strict {
        /// Kind of the object.
        kind: String,
        /// The version, without the group.
        version: String,
        /// All violations.
        errors: Vec<String>,
    },
}

impl DecodeError {
    /// Returns the message without the kind.
    pub fn detail(&self) -> String {
        match self {
            Self::Mismatch { detail, .. } => detail.clone(),
            Self::Strict { errors, .. } => format!("strict decoding error: {}", errors.join(", ")),
            other => other.to_string(),
        }
    }
}

/// Type of a body: a served kind, or a kind of options.
#[derive(Clone, Copy, Debug)]
struct Target<'t> {
    api_version: &'t str,
    kind: &'t str,
    definition: &'t str,
}

/// Decodes an object of `kind`. Absent `apiVersion` and `kind` are added.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode(body: &[u8], format: Format, kind: &Kind) -> Result<Decoded, DecodeError> {
    let api_version = kind.api_version();
    let target = Target {
        api_version: &api_version,
        kind: kind.kind,
        definition: kind.definition,
    };
    let mut decoded = target.decode(body, format)?;
    target.identify(&mut decoded.object)?;
    Ok(decoded)
}

/// Decodes `DeleteOptions`, the body of a DELETE. An empty body becomes an empty object. Any `apiVersion` is
/// accepted, because clients send the group of the deleted object.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode_delete_options(body: &[u8], format: Format) -> Result<Decoded, DecodeError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Decoded {
            object: Value::Object(serde_json::Map::new()),
            strict_errors: Vec::new(),
        });
    }
    let target = Target {
        api_version: "meta.k8s.io/v1",
        kind: "DeleteOptions",
        definition: "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    };
    let decoded = target.decode(body, format)?;
    match decoded.object.get("kind").and_then(Value::as_str) {
        None | Some("" | "DeleteOptions") => Ok(decoded),
        Some(found) => Err(DecodeError::WrongKind {
            found: found.into(),
            expected: target.kind.into(),
            version: target.version().into(),
        }),
    }
}

/// Decodes a body without a schema, such as a patch. Duplicate fields are reported.
///
/// # Errors
/// [`DecodeError::Syntax`] and [`DecodeError::TooManyValues`].
pub fn decode_untyped(body: &[u8], format: Format) -> Result<Decoded, DecodeError> {
    decode_without_schema(VALUES_MAX, |node| decode_text(body, format, node)).map(|(decoded, _)| decoded)
}

/// Decodes JSON without a schema, up to `values_max` values. Returns the value and the number of values.
pub(crate) fn decode_json_within(json: &[u8], values_max: usize) -> Result<(Value, usize), DecodeError> {
    let decoded = decode_without_schema(values_max, |node| decode_text(json, Format::Json, node));
    decoded.map(|(decoded, values)| (decoded.object, values))
}

fn decode_without_schema(
    values_max: usize,
    run: impl FnOnce(Node<'_>) -> Result<Value, String>,
) -> Result<(Decoded, usize), DecodeError> {
    let findings = Findings::new(values_max);
    let location = Location::root();
    let result = run(Node::new(&Shape::Free, &location, &findings));
    match result {
        Ok(object) => {
            let values = findings.values();
            let (_, strict_errors) = findings.take();
            Ok((
                Decoded {
                    object,
                    strict_errors,
                },
                values,
            ))
        }
        Err(_) if findings.has_too_many_values() => Err(DecodeError::TooManyValues),
        Err(detail) => Err(DecodeError::Syntax {
            kind: "object".into(),
            detail,
        }),
    }
}

/// Checks a tree that was not decoded from a body, such as the result of a patch, against the schema of `kind`.
///
/// # Errors
/// See [`DecodeError`].
pub fn conform(tree: Value, kind: &Kind) -> Result<Decoded, DecodeError> {
    let api_version = kind.api_version();
    let target = Target {
        api_version: &api_version,
        kind: kind.kind,
        definition: kind.definition,
    };
    let mut decoded = target.walk(|node| node.deserialize(tree).map_err(|error| error.to_string()))?;
    target.identify(&mut decoded.object)?;
    Ok(decoded)
}

impl Decoded {
    /// Returns the object (`fieldValidation=Strict`).
    ///
    /// # Errors
    /// [`DecodeError::Strict`] if the object violates strict validation.
    pub fn strict(self, kind: &Kind) -> Result<Value, DecodeError> {
        if self.strict_errors.is_empty() {
            return Ok(self.object);
        }
        Err(DecodeError::Strict {
            kind: kind.kind.into(),
            version: kind.version.into(),
            errors: self.strict_errors,
        })
    }
}

impl<'t> Target<'t> {
    /// Returns the version without the group, as upstream's messages show it.
    fn version(self) -> &'t str {
        self.api_version.rsplit('/').next().unwrap_or(self.api_version)
    }

    fn decode(self, body: &[u8], format: Format) -> Result<Decoded, DecodeError> {
        match format {
            Format::Json | Format::Yaml => self.walk(|node| decode_text(body, format, node)),
            Format::Protobuf => self.decode_protobuf(body),
        }
    }

    /// Decodes a protobuf body. There are no strict errors, because unknown fields have no name.
    fn decode_protobuf(self, body: &[u8]) -> Result<Decoded, DecodeError> {
        let envelope = protobuf::open(body).map_err(|error| DecodeError::Syntax {
            kind: self.kind.into(),
            detail: error.to_string(),
        })?;
        // Check the kind first: the message of another kind would cause misleading errors.
        if !envelope.kind.is_empty() && envelope.kind != self.kind {
            return Err(DecodeError::WrongKind {
                found: envelope.kind.into(),
                expected: self.kind.into(),
                version: envelope.api_version.into(),
            });
        }
        let object = envelope.object(self.definition);
        let object = object.map_err(|error| match error {
            protobuf::ProtobufError::TooManyValues => DecodeError::TooManyValues,
            other => DecodeError::Mismatch {
                kind: self.kind.into(),
                version: self.version().into(),
                detail: other.to_string(),
            },
        })?;
        Ok(Decoded {
            object,
            strict_errors: Vec::new(),
        })
    }

    fn walk(self, run: impl FnOnce(Node<'_>) -> Result<Value, String>) -> Result<Decoded, DecodeError> {
        let shape = schema().shape(self.definition).unwrap_or(Shape::Free);
        let findings = Findings::new(VALUES_MAX);
        let location = Location::root();
        let result = run(Node::new(&shape, &location, &findings));
        if findings.has_too_many_values() {
            return Err(DecodeError::TooManyValues);
        }
        match (result, findings.take()) {
            (_, (Some(detail), _)) => Err(DecodeError::Mismatch {
                kind: self.kind.into(),
                version: self.version().into(),
                detail,
            }),
            (Err(detail), _) => Err(DecodeError::Syntax {
                kind: self.kind.into(),
                detail,
            }),
            (Ok(object), (None, strict_errors)) => Ok(Decoded {
                object,
                strict_errors,
            }),
        }
    }

    /// Checks `apiVersion` and `kind`, and moves them to the front.
    fn identify(self, object: &mut Value) -> Result<(), DecodeError> {
        // As upstream: the body `null` is an object without fields.
        if object.is_null() {
            *object = Value::Object(serde_json::Map::new());
        }
        let Value::Object(fields) = object else {
            return Err(DecodeError::Syntax {
                kind: self.kind.into(),
                detail: "json: expected an object".into(),
            });
        };
        let text_of = |fields: &serde_json::Map<String, Value>, name: &str| match fields.get(name) {
            Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
            _ => None,
        };
        let version = text_of(fields, "apiVersion").unwrap_or_else(|| self.api_version.into());
        let kind = text_of(fields, "kind").unwrap_or_else(|| self.kind.into());
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

/// Decodes a JSON or YAML text.
fn decode_text(body: &[u8], format: Format, node: Node<'_>) -> Result<Value, String> {
    match format {
        Format::Json => {
            let mut reader = serde_json::Deserializer::from_slice(body);
            let value = node
                .deserialize(&mut reader)
                .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
            reader
                .end()
                .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
            Ok(value)
        }
        Format::Yaml => {
            // The walk reports duplicate keys, so the parser must accept them.
            let options = serde_saphyr::options! {
                duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
                legacy_octal_numbers: true,
                with_snippet: false,
            };
            let document = yaml::first_document(body);
            serde_saphyr::with_deserializer_from_slice_with_options(document, options, |reader| {
                node.of_yaml().deserialize(reader)
            })
            .map_err(|error| format!("error converting YAML to JSON: yaml: {error}"))
        }
        Format::Protobuf => Err("protobuf cannot encode untyped values".to_owned()),
    }
}

#[cfg(test)]
mod tests;
