//! The object that a body names, and bodies in the form of events.

use api::decode::{Format, decode};
use api::kind::Kind;
use api::tree::{child, clear, items_mut, text};
use serde_json::Value;

/// A body as JSON; `None` if it is in no form that can be read.
pub(super) fn body(bytes: &[u8], format: Format, kind: &Kind) -> Option<Value> {
    match format {
        Format::Json => serde_json::from_slice(bytes).ok(),
        Format::Yaml | Format::Protobuf => Some(decode(bytes, format, kind).ok()?.object),
    }
}

/// Leaves the records of field managers out of an object, a list of objects or a table.
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

/// The name of the object in a body, its UID and its version, "" for what it does not say.
pub(super) fn identity(body: &Value) -> [String; 3] {
    let metadata = child(body, "metadata");
    ["name", "uid", "resourceVersion"].map(|field| text(metadata, field).to_owned())
}
