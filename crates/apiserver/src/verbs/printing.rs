//! Encoding of objects and lists in the form that the client accepts.

use api::kind::Kind;
use api::tree::{child, clear, text};
use api::{protobuf, table};
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::request::negotiation::{Encoding, Form, MetaVersion, Representation};
use crate::verbs::page::Page;

/// The part of an object that a table row includes: the `includeObject` parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum IncludeObject {
    /// No object.
    Nothing,
    /// Metadata only.
    Metadata,
    /// The whole object.
    Whole,
}

impl IncludeObject {
    /// Parses the parameter.
    ///
    /// # Errors
    /// 400 for another value.
    pub(crate) fn parse(text: &str) -> Result<IncludeObject, Failure> {
        match text {
            "None" => Ok(IncludeObject::Nothing),
            "Object" => Ok(IncludeObject::Whole),
            "" | "Metadata" => Ok(IncludeObject::Metadata),
            other => Err(Failure::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', \
                 'Object', 'None', or empty"
            ))),
        }
    }
}

/// Rejects the metadata of one object as the form of a list.
///
/// # Errors
/// 406 if the form is not one of lists.
pub(crate) fn ensure_list(kind: &Kind, form: Form) -> Result<(), Failure> {
    if form.representation != Representation::Metadata {
        return Ok(());
    }
    Err(Failure::not_acceptable_metadata(format!(
        "you requested PartialObjectMetadata, but the requested object is a list ({})",
        kind.list_kind
    )))
}

/// Checks that a form is a form of single objects.
///
/// # Errors
/// 406 for `PartialObjectMetadataList`, which is a form of lists.
pub(crate) fn ensure_object(kind: &Kind, form: Form) -> Result<(), Failure> {
    if form.representation == Representation::MetadataList {
        Err(no_list(kind))
    } else {
        Ok(())
    }
}

fn no_list(kind: &Kind) -> Failure {
    Failure::not_acceptable_metadata(format!(
        "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
        kind.kind
    ))
}

/// OpenAPI definition of `Status`.
pub(crate) const STATUS_DEFINITION: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

/// Encodes one object in a negotiated form.
pub(crate) fn object(
    kind: &Kind,
    bytes: Bytes,
    form: Form,
    include: IncludeObject,
) -> Result<Bytes, Failure> {
    if form.is_plain() && kind.is_stored_form() {
        return Ok(bytes);
    }
    let object = parse(&bytes)?;
    match form.representation {
        Representation::Objects => encode(&kind.of_stored(object), kind.definition, form.encoding),
        Representation::MetadataList => Err(no_list(kind)),
        Representation::Metadata if form.encoding == Encoding::Protobuf => {
            let message = protobuf::metadata_message(&object).ok_or_else(no_protobuf)?;
            Ok(protobuf::envelope(&metadata_only(&object, form.meta_version), &message).into())
        }
        Representation::Metadata => encode(&metadata_only(&object, form.meta_version), "", form.encoding),
        Representation::Table => {
            let version = text(child(&object, "metadata"), "resourceVersion").to_owned();
            let rows = vec![row(kind, object, include, form.meta_version)];
            let table = table_of(
                kind,
                rows,
                json!({ "resourceVersion": version }),
                form.meta_version,
            );
            encode(&table, "", form.encoding)
        }
    }
}

/// Encodes a `Status`.
pub(crate) fn status(bytes: &[u8], encoding: Encoding) -> Result<Bytes, Failure> {
    encode(&parse(bytes)?, STATUS_DEFINITION, encoding)
}

/// Encodes a tree; `definition` is the OpenAPI name of its type.
pub(crate) fn encode(tree: &Value, definition: &str, encoding: Encoding) -> Result<Bytes, Failure> {
    match encoding {
        Encoding::Json => Ok(tree_bytes(tree)),
        Encoding::PrettyJson => Ok(format!("{tree:#}").into()),
        Encoding::Yaml => encode_yaml(tree.clone()),
        Encoding::Protobuf => {
            let bytes = protobuf::write(tree, definition).ok_or_else(no_protobuf)?;
            Ok(bytes.into())
        }
    }
}

fn encode_yaml(mut tree: Value) -> Result<Bytes, Failure> {
    tree.sort_all_objects();
    let text = serde_saphyr::to_string(&tree).map_err(|error| {
        tracing::error!(%error, "object not encoded as YAML");
        Failure::internal("the object cannot be encoded as YAML")
    })?;
    Ok(text.into())
}

fn no_protobuf() -> Failure {
    let message = "object does not implement the protobuf marshalling interface and cannot be encoded to a \
                   protobuf message";
    Failure::new(http::StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
}

/// Builds a `Table`.
pub(crate) fn table_of(kind: &Kind, rows: Vec<Value>, metadata: Value, version: MetaVersion) -> Value {
    let mut table = json!({ "kind": "Table", "apiVersion": version.api_version(), "metadata": metadata });
    table["columnDefinitions"] = table::column_definitions(kind);
    table["rows"] = Value::Array(rows);
    table
}

/// Builds the table row of an object.
pub(crate) fn row(kind: &Kind, object: Value, include: IncludeObject, version: MetaVersion) -> Value {
    let cells = table::cells(kind, &object, Timestamp::now());
    let object = match include {
        IncludeObject::Nothing => return json!({ "cells": cells }),
        IncludeObject::Metadata => metadata_only(&object, version),
        IncludeObject::Whole => kind.of_stored(object),
    };
    json!({ "cells": cells, "object": object })
}

/// Returns the metadata of an object as a `PartialObjectMetadata`.
pub(crate) fn metadata_only(object: &Value, version: MetaVersion) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": version.api_version(),
        "metadata": child(object, "metadata"),
    })
}

/// Memory of the tree of an object, as a multiple of its JSON.
const TREE_FACTOR: usize = 10;

/// Maximum number of bytes of the objects of a list whose trees are in memory at the same time: 320 MiB of trees.
const TREES_BYTES_MAX: usize = 32 << 20;

/// Returns the bytes that the encoding of a list needs, without those that it shares with the store.
///
/// # Errors
/// 413 if the encoding needs the trees of all objects at once, and they are too large. Administrators (`is_exempt`) have
/// no bound.
pub(crate) fn encoding_bytes(
    kind: &Kind,
    page: &Page,
    form: Form,
    is_exempt: bool,
) -> Result<usize, Failure> {
    if form.is_plain() && kind.is_stored_form() {
        return Ok(0);
    }
    let bytes = page.entries.iter().map(|entry| entry.value.len()).sum::<usize>();
    match form.encoding {
        // The tree of one object at a time.
        Encoding::Protobuf | Encoding::Json => Ok(bytes),
        Encoding::PrettyJson | Encoding::Yaml if bytes <= TREES_BYTES_MAX || is_exempt => {
            Ok(bytes.saturating_mul(TREE_FACTOR))
        }
        Encoding::PrettyJson | Encoding::Yaml => {
            let message = format!(
                "the list has {bytes} bytes: expected at most {TREES_BYTES_MAX} in YAML or indented JSON; request JSON \
                 without indentation by pretty=false, or pages by limit"
            );
            Err(Failure::new(
                http::StatusCode::PAYLOAD_TOO_LARGE,
                "RequestEntityTooLarge",
                message,
            ))
        }
    }
}

/// Encodes a list in a negotiated form. Plain JSON lists share the bytes of the store.
pub(crate) fn page(
    kind: &Kind,
    page: Page,
    form: Form,
    include: IncludeObject,
) -> Result<Vec<Bytes>, Failure> {
    ensure_list(kind, form)?;
    let mut metadata = json!({ "resourceVersion": page.revision.to_string() });
    if let Some(token) = page.continue_token {
        metadata["continue"] = token.into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    let is_empty = page.entries.is_empty();
    let values = page.entries.into_iter().map(|entry| entry.value);
    if form.is_plain() && kind.is_stored_form() {
        let head = list_head(kind.list_kind, &kind.api_version(), &metadata);
        return Ok(list_pieces(kind, head, values));
    }
    let list_of = |kind: &str, api_version: &str| json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
    let mut list = match form.representation {
        Representation::Objects => list_of(kind.list_kind, &kind.api_version()),
        _ => list_of("PartialObjectMetadataList", form.meta_version.api_version()),
    };
    if form.encoding == Encoding::Protobuf {
        return Ok(vec![protobuf_list(kind, form, &list, values)?]);
    }
    if is_empty && form.representation == Representation::MetadataList {
        // As upstream, whose conversion leaves the list without items.
        list["items"] = Value::Null;
        return Ok(vec![encode(&list, "", form.encoding)?]);
    }
    let convert = |bytes: Bytes| -> Result<Value, Failure> {
        let object = parse(&bytes)?;
        Ok(match form.representation {
            Representation::Objects => without_type(kind.of_stored(object)),
            Representation::Metadata | Representation::MetadataList => {
                metadata_only(&object, form.meta_version)
            }
            Representation::Table => row(kind, object, include, form.meta_version),
        })
    };
    let field = match form.representation {
        Representation::Table => {
            list = table_of(kind, Vec::new(), metadata, form.meta_version);
            "rows"
        }
        _ => "items",
    };
    // The last field, so that the text of the list ends with it.
    list[field] = Value::Array(Vec::new());
    let items = values.map(convert);
    if form.encoding == Encoding::Json {
        return Ok(vec![json_list(&list, items)?]);
    }
    list[field] = Value::Array(items.collect::<Result<_, Failure>>()?);
    let encoded = match form.encoding {
        Encoding::Yaml => encode_yaml(list)?,
        encoding => encode(&list, "", encoding)?,
    };
    Ok(vec![encoded])
}

/// Encodes a list as protobuf. `list` is the list without items.
fn protobuf_list(
    kind: &Kind,
    form: Form,
    list: &Value,
    values: impl Iterator<Item = Bytes>,
) -> Result<Bytes, Failure> {
    let encode_item = |bytes: Bytes| {
        let object = parse(&bytes)?;
        match form.representation {
            Representation::Objects => protobuf::message(&kind.of_stored(object), kind.definition),
            _ => protobuf::metadata_message(&object),
        }
        .ok_or_else(no_protobuf)
    };
    let items: Result<Vec<Vec<u8>>, Failure> = values.map(encode_item).collect();
    let bytes = protobuf::write_list(list, items?.into_iter()).ok_or_else(no_protobuf)?;
    Ok(bytes.into())
}

/// Encodes a list as JSON, with the tree of one item at a time. The empty list of items ends the text of `list`.
fn json_list(list: &Value, items: impl Iterator<Item = Result<Value, Failure>>) -> Result<Bytes, Failure> {
    const END: &str = "]}";
    let text = list.to_string();
    let Some(head) = text.strip_suffix(END) else {
        tracing::error!("list does not end with its items");
        return Err(Failure::internal("the list cannot be encoded"));
    };
    let mut encoded = head.to_owned();
    for (index, item) in items.enumerate() {
        if index > 0 {
            encoded.push(',');
        }
        encoded.push_str(&item?.to_string());
    }
    encoded.push_str(END);
    Ok(encoded.into())
}

/// Returns a list item. Items have no type: the list has it for all.
fn without_type(mut object: Value) -> Value {
    clear(&mut object, "apiVersion");
    clear(&mut object, "kind");
    object
}

/// Returns a list as pieces. Items of a list have no `apiVersion` and `kind`. Stored bytes begin with these
/// fields, always the same, so the items are slices of the stored bytes.
fn list_pieces(kind: &Kind, head: Bytes, values: impl ExactSizeIterator<Item = Bytes>) -> Vec<Bytes> {
    let type_fields = format!(
        r#"{{"apiVersion":"{}","kind":"{}","#,
        kind.api_version(),
        kind.kind
    );
    let mut pieces = Vec::with_capacity(2 * values.len() + 2);
    pieces.push(head);
    for (index, bytes) in values.enumerate() {
        let is_first = index == 0;
        if bytes.starts_with(type_fields.as_bytes()) {
            pieces.push(Bytes::from_static(if is_first { b"{" } else { b",{" }));
            pieces.push(bytes.slice(type_fields.len()..));
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

fn parse(bytes: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(bytes).map_err(|error| {
        tracing::error!(%error, "stored object not valid JSON");
        Failure::internal("a stored object cannot be read")
    })
}

fn tree_bytes(tree: &Value) -> Bytes {
    Bytes::from(tree.to_string())
}

#[cfg(test)]
mod tests;
