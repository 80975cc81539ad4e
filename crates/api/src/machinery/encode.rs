//! Encoding of objects in the form in which the store keeps them and clients receive them.

use std::io::Write as _;

use serde_json::{Map, Value};

const VERSION_FIELD: &str = "resourceVersion";

/// Encodes an object as JSON with an empty `metadata.resourceVersion`. Returns the bytes and the offset between the
/// two quotes, where the store inserts the revision. Missing metadata is added; a value that is not an object becomes
/// an object with metadata only.
///
/// # Example
///
/// ```
/// use api::encode::encode;
/// use serde_json::json;
///
/// let (mut bytes, revision_at) = encode(&json!({"metadata": {"name": "web"}}));
/// bytes.splice(revision_at..revision_at, *b"42");
/// assert_eq!(bytes, br#"{"metadata":{"name":"web","resourceVersion":"42"}}"#);
/// ```
pub fn encode(object: &Value) -> (Vec<u8>, usize) {
    const BYTES_EXPECTED: usize = 1024;
    let mut out = Vec::with_capacity(BYTES_EXPECTED);
    let mut revision_at = None;
    let empty = Map::new();
    let fields = object.as_object().unwrap_or(&empty);
    out.push(b'{');
    for (name, value) in fields {
        write_separator(&mut out);
        write_name(&mut out, name);
        if name == "metadata" {
            revision_at = Some(write_metadata(&mut out, value));
        } else {
            write_value(&mut out, value);
        }
    }
    let revision_at = revision_at.unwrap_or_else(|| {
        write_separator(&mut out);
        write_name(&mut out, "metadata");
        write_metadata(&mut out, &Value::Null)
    });
    out.push(b'}');
    (out, revision_at)
}

fn write_metadata(out: &mut Vec<u8>, metadata: &Value) -> usize {
    let mut revision_at = None;
    out.push(b'{');
    for (name, value) in metadata.as_object().into_iter().flatten() {
        write_separator(out);
        if name == VERSION_FIELD {
            revision_at = Some(write_version(out));
        } else {
            write_name(out, name);
            write_value(out, value);
        }
    }
    let revision_at = revision_at.unwrap_or_else(|| {
        write_separator(out);
        write_version(out)
    });
    out.push(b'}');
    revision_at
}

fn write_version(out: &mut Vec<u8>) -> usize {
    write_name(out, VERSION_FIELD);
    out.extend_from_slice(b"\"\"");
    out.len() - 1
}

/// Writes a comma, unless the next field is the first one.
fn write_separator(out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
}

fn write_name(out: &mut Vec<u8>, name: &str) {
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        out.push(b'"');
        out.extend_from_slice(name.as_bytes());
        out.push(b'"');
    } else {
        write!(out, "{}", Value::from(name)).expect("writing to memory");
    }
    out.push(b':');
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(out, value).expect("writing a JSON tree to memory");
}

#[cfg(test)]
mod tests;
