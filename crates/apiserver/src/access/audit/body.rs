//! Bodies of requests and responses as JSON, and the object that a body contains.

use api::decode::{Format, decode};
use api::kind::Kind;
use api::tree::{child, clear, items_mut, text};
use serde_json::Value;

/// Parses a body; `None` if it is malformed.
pub(super) fn parse(bytes: &[u8], format: Format, kind: &Kind) -> Option<Value> {
    match format {
        Format::Json => serde_json::from_slice(bytes).ok(),
        Format::Yaml | Format::Protobuf => Some(decode(bytes, format, kind).ok()?.object),
    }
}

/// Removes `managedFields` from an object, a list or a table.
pub(super) fn omit_managed_fields(body: &mut Value) {
    if let Some(metadata) = body.get_mut("metadata") {
        clear(metadata, "managedFields");
    }
    for item in items_mut(body, "items") {
        if let Some(metadata) = item.get_mut("metadata") {
            clear(metadata, "managedFields");
        }
    }
    for row in items_mut(body, "rows") {
        if let Some(metadata) = row
            .get_mut("object")
            .and_then(|object| object.get_mut("metadata"))
        {
            clear(metadata, "managedFields");
        }
    }
}

/// Returns name, UID and resourceVersion of the object in a body; "" for absent fields.
pub(super) fn identity(body: &Value) -> [String; 3] {
    let metadata = child(body, "metadata");
    ["name", "uid", "resourceVersion"].map(|field| text(metadata, field).to_owned())
}
