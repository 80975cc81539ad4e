//! Objects and pages in the form that the client asked for.

use api::kind::Kind;
use api::table;
use api::tree::{child, text};
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::negotiation::Representation;
use crate::resource::Page;

/// What of the object a row of a table carries, the `includeObject` parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    /// Nothing.
    Nothing,
    /// Its metadata.
    Metadata,
    /// All of it.
    Whole,
}

impl IncludeObject {
    /// Reads the parameter.
    pub(crate) fn read(text: &str) -> IncludeObject {
        match text {
            "None" => IncludeObject::Nothing,
            "Object" => IncludeObject::Whole,
            _ => IncludeObject::Metadata,
        }
    }
}

/// One object in the form that was asked for.
pub(crate) fn object(
    kind: &Kind,
    bytes: Bytes,
    form: Representation,
    include: IncludeObject,
) -> Result<Bytes, Failure> {
    match form {
        Representation::Objects => Ok(bytes),
        Representation::Metadata => Ok(tree_bytes(&metadata_only(&read(&bytes)?))),
        Representation::Table => {
            let object = read(&bytes)?;
            let version = text(child(&object, "metadata"), "resourceVersion").to_owned();
            let table = table_of(
                kind,
                vec![row(kind, object, include)],
                json!({ "resourceVersion": version }),
            );
            Ok(tree_bytes(&table))
        }
    }
}

/// A table of rows.
pub(crate) fn table_of(kind: &Kind, rows: Vec<Value>, metadata: Value) -> Value {
    let mut table = json!({ "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata });
    table["columnDefinitions"] = table::column_definitions(kind);
    table["rows"] = Value::Array(rows);
    table
}

/// An object's row.
pub(crate) fn row(kind: &Kind, object: Value, include: IncludeObject) -> Value {
    let cells = table::cells(kind, &object, Timestamp::now());
    let object = match include {
        IncludeObject::Nothing => return json!({ "cells": cells }),
        IncludeObject::Metadata => metadata_only(&object),
        IncludeObject::Whole => object,
    };
    json!({ "cells": cells, "object": object })
}

/// The object's metadata as an object of its own.
pub(crate) fn metadata_only(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": child(object, "metadata"),
    })
}

/// A page in the form that was asked for, as pieces that share the store's bytes where they can.
pub(crate) fn page(
    kind: &Kind,
    page: Page,
    form: Representation,
    include: IncludeObject,
) -> Result<Vec<Bytes>, Failure> {
    let mut metadata = json!({ "resourceVersion": page.revision.to_string() });
    if let Some(token) = page.continue_token {
        metadata["continue"] = token.into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    let values = page.entries.into_iter().map(|entry| entry.value);
    match form {
        Representation::Objects => {
            let head = list_head(kind.list_kind, &kind.api_version(), &metadata);
            Ok(list_pieces(kind, head, values))
        }
        Representation::Metadata => {
            let items: Result<Vec<Value>, Failure> =
                values.map(|bytes| Ok(metadata_only(&read(&bytes)?))).collect();
            let list = json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "items": items?,
            });
            Ok(vec![tree_bytes(&list)])
        }
        Representation::Table => {
            let rows: Result<Vec<Value>, Failure> = values
                .map(|bytes| Ok(row(kind, read(&bytes)?, include)))
                .collect();
            Ok(vec![tree_bytes(&table_of(kind, rows?, metadata))])
        }
    }
}

/// The objects of a list have no `apiVersion` and `kind` of their own: the list says them for all. In the stored
/// bytes they come first, always the same, so leaving them out is a matter of slicing.
fn list_pieces(kind: &Kind, head: Bytes, values: impl ExactSizeIterator<Item = Bytes>) -> Vec<Bytes> {
    let own_head = format!(
        r#"{{"apiVersion":"{}","kind":"{}","#,
        kind.api_version(),
        kind.kind
    );
    let mut pieces = Vec::with_capacity(2 * values.len() + 2);
    pieces.push(head);
    for (index, bytes) in values.enumerate() {
        let is_first = index == 0;
        if bytes.starts_with(own_head.as_bytes()) {
            pieces.push(Bytes::from_static(if is_first { b"{" } else { b",{" }));
            pieces.push(bytes.slice(own_head.len()..));
        } else {
            if !is_first {
                pieces.push(Bytes::from_static(b","));
            }
            pieces.push(bytes);
        }
    }
    pieces.push(Bytes::from_static(b"]}"));
    pieces
}

fn list_head(list_kind: &str, api_version: &str, metadata: &Value) -> Bytes {
    let head =
        format!(r#"{{"kind":"{list_kind}","apiVersion":"{api_version}","metadata":{metadata},"items":["#);
    Bytes::from(head)
}

fn read(bytes: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(bytes).map_err(|error| {
        tracing::error!(%error, "a stored object is not JSON");
        Failure::internal("a stored object cannot be read")
    })
}

fn tree_bytes(tree: &Value) -> Bytes {
    Bytes::from(tree.to_string())
}

#[cfg(test)]
mod tests {
    use api::kind::find;

    use super::*;

    #[test]
    fn list_items_lose_their_type_and_nothing_else() {
        let services = find("", "v1", "services").unwrap();
        let stored = [
            Bytes::from_static(br#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"}}"#),
            Bytes::from_static(br#"{"metadata":{"name":"b"}}"#),
        ];
        let head = list_head("ServiceList", "v1", &json!({}));
        let text: Vec<u8> = list_pieces(services, head, stored.into_iter()).concat();
        let list: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(
            list["items"],
            json!([{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}])
        );
        assert_eq!(list["kind"], "ServiceList");
    }

    #[test]
    fn a_table_of_one_object() {
        let services = find("", "v1", "services").unwrap();
        let bytes = Bytes::from_static(br#"{"metadata":{"name":"a","resourceVersion":"7"},"spec":{}}"#);
        let table = object(services, bytes, Representation::Table, IncludeObject::Metadata).unwrap();
        let table: Value = serde_json::from_slice(&table).unwrap();
        assert_eq!(table["metadata"]["resourceVersion"], "7");
        assert_eq!(table["rows"][0]["cells"][0], "a");
        assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    }
}
