//! Objects and pages in the form that the client asked for.

use api::kind::Kind;
use api::tree::{child, clear, text};
use api::{protobuf, table};
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::request::negotiation::{Encoding, Form, Representation};
use crate::verbs::page::Page;

/// What of the object a row of a table carries, the `includeObject` parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// The definition of a `Status`.
pub(crate) const STATUS_DEFINITION: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

/// One object in the form that was asked for.
pub(crate) fn object(
    kind: &Kind,
    bytes: Bytes,
    form: Form,
    include: IncludeObject,
) -> Result<Bytes, Failure> {
    if form.is_plain() && kind.is_stored_form() {
        return Ok(bytes);
    }
    let object = read(&bytes)?;
    match form.representation {
        Representation::Objects => encoded(&kind.of_stored(object), kind.definition, form.encoding),
        Representation::Metadata if form.encoding == Encoding::Protobuf => {
            let message = protobuf::metadata_message(&object).ok_or_else(no_protobuf)?;
            Ok(protobuf::envelope(&metadata_only(&object), &message).into())
        }
        Representation::Metadata => encoded(&metadata_only(&object), "", form.encoding),
        Representation::Table => {
            let version = text(child(&object, "metadata"), "resourceVersion").to_owned();
            let table = table_of(
                kind,
                vec![row(kind, object, include)],
                json!({ "resourceVersion": version }),
            );
            encoded(&table, "", form.encoding)
        }
    }
}

/// A `Status` in the encoding that was asked for.
pub(crate) fn status(bytes: &[u8], encoding: Encoding) -> Result<Bytes, Failure> {
    encoded(&read(bytes)?, STATUS_DEFINITION, encoding)
}

/// A tree as it is sent; `definition` is the full name of its type.
pub(crate) fn encoded(tree: &Value, definition: &str, encoding: Encoding) -> Result<Bytes, Failure> {
    match encoding {
        Encoding::Json => Ok(tree_bytes(tree)),
        Encoding::PrettyJson => Ok(format!("{tree:#}").into()),
        Encoding::Yaml => {
            let mut tree = tree.clone();
            tree.sort_all_objects();
            let text = serde_saphyr::to_string(&tree).map_err(|error| {
                tracing::error!(%error, "an object could not be written as YAML");
                Failure::internal("the object has no form in YAML")
            })?;
            Ok(text.into())
        }
        Encoding::Protobuf => {
            let bytes = protobuf::write(tree, definition).ok_or_else(no_protobuf)?;
            Ok(bytes.into())
        }
    }
}

fn no_protobuf() -> Failure {
    let message = "object does not implement the protobuf marshalling interface and cannot be encoded to a \
                   protobuf message";
    Failure::new(http::StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
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
        IncludeObject::Whole => kind.of_stored(object),
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
    form: Form,
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
    if form.is_plain() && kind.is_stored_form() {
        let head = list_head(kind.list_kind, &kind.api_version(), &metadata);
        return Ok(list_pieces(kind, head, values));
    }
    let list = |kind: &str, api_version: &str| json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
    let mut list = match form.representation {
        Representation::Objects => list(kind.list_kind, &kind.api_version()),
        _ => list("PartialObjectMetadataList", "meta.k8s.io/v1"),
    };
    if form.encoding == Encoding::Protobuf {
        let message = |bytes: Bytes| {
            let object = read(&bytes)?;
            match form.representation {
                Representation::Objects => protobuf::message(&kind.of_stored(object), kind.definition),
                _ => protobuf::metadata_message(&object),
            }
            .ok_or_else(no_protobuf)
        };
        let items: Result<Vec<Vec<u8>>, Failure> = values.map(message).collect();
        let bytes = protobuf::write_list(&list, items?.into_iter()).ok_or_else(no_protobuf)?;
        return Ok(vec![bytes.into()]);
    }
    let shown = |bytes: Bytes| {
        let object = read(&bytes)?;
        Ok(match form.representation {
            Representation::Objects => untyped(kind.of_stored(object)),
            Representation::Metadata => metadata_only(&object),
            Representation::Table => row(kind, object, include),
        })
    };
    let items: Result<Vec<Value>, Failure> = values.map(shown).collect();
    match form.representation {
        Representation::Table => list = table_of(kind, items?, metadata),
        _ => list["items"] = items?.into(),
    }
    Ok(vec![encoded(&list, "", form.encoding)?])
}

/// An item of a list, which says the type for all.
fn untyped(mut object: Value) -> Value {
    clear(&mut object, "apiVersion");
    clear(&mut object, "kind");
    object
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
mod tests;
