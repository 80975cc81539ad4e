//! The bytes of an object as the store keeps them and every reader gets them.

use std::io::Write as _;

use serde_json::{Map, Value};

const VERSION_FIELD: &str = "resourceVersion";

/// Writes an object as JSON with an empty `metadata.resourceVersion`, and says where, between the two quotes, the
/// store is to insert the revision. A tree without metadata gets one; what is not an object is written as an object
/// with metadata only.
pub fn encode(object: &Value) -> (Vec<u8>, usize) {
    const BYTES_EXPECTED: usize = 1024;
    let mut out = Vec::with_capacity(BYTES_EXPECTED);
    let mut revision_at = None;
    let empty = Map::new();
    let fields = object.as_object().unwrap_or(&empty);
    out.push(b'{');
    for (name, value) in fields {
        separate(&mut out);
        write_name(&mut out, name);
        if name == "metadata" {
            revision_at = Some(write_metadata(&mut out, value));
        } else {
            write_value(&mut out, value);
        }
    }
    let revision_at = revision_at.unwrap_or_else(|| {
        separate(&mut out);
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
        separate(out);
        if name == VERSION_FIELD {
            revision_at = Some(write_version(out));
        } else {
            write_name(out, name);
            write_value(out, value);
        }
    }
    let revision_at = revision_at.unwrap_or_else(|| {
        separate(out);
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

/// A comma, unless this is the first field.
fn separate(out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
}

fn write_name(out: &mut Vec<u8>, name: &str) {
    if name.bytes().all(|b| b.is_ascii_alphanumeric()) {
        out.push(b'"');
        out.extend_from_slice(name.as_bytes());
        out.push(b'"');
    } else {
        write!(out, "{}", Value::from(name)).expect("memory takes every write");
    }
    out.push(b':');
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(out, value).expect("a tree is always JSON, and memory takes every write");
}

#[cfg(test)]
mod tests;
