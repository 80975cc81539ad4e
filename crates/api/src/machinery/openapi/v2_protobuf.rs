//! The v2 document as a protobuf message of `openapi.v2`, which `kubectl` before 1.27 reads. Field numbers are those
//! of gnostic's `OpenAPIv2.proto`. Parts that these clients ignore (responses, schemas of bodies) are omitted.

use serde_json::Value;

use crate::machinery::protobuf::{put_bytes, put_varint};
use crate::machinery::tree::{child, flag_if_set, items, text, texts};

/// Encodes the document.
pub(super) fn document(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put_text(1, text(document, "swagger"), &mut out);
    let mut info = Vec::new();
    put_text(1, text(child(document, "info"), "title"), &mut info);
    put_text(2, text(child(document, "info"), "version"), &mut info);
    put_bytes(2, &info, &mut out);
    put_bytes(8, &encode_named(2, child(document, "paths"), path_item), &mut out);
    put_bytes(
        9,
        &encode_named(1, child(document, "definitions"), schema),
        &mut out,
    );
    out
}

/// Encodes the entries of an object as messages of name and value in the field `number`.
fn encode_named(number: u32, entries: &Value, write: impl Fn(&Value) -> Vec<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in entries.as_object().into_iter().flatten() {
        let mut entry = Vec::new();
        put_text(1, name, &mut entry);
        put_bytes(2, &write(value), &mut entry);
        put_bytes(number, &entry, &mut out);
    }
    out
}

fn path_item(item: &Value) -> Vec<u8> {
    const METHODS: [(u32, &str); 5] = [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")];
    let mut out = Vec::new();
    for (number, method) in METHODS {
        if let Some(value) = item.get(method) {
            put_bytes(number, &operation(value), &mut out);
        }
    }
    put_parameters(9, item, &mut out);
    out
}

fn operation(operation: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put_texts(1, operation, "tags", &mut out);
    put_text(3, text(operation, "description"), &mut out);
    put_text(5, text(operation, "operationId"), &mut out);
    put_texts(6, operation, "produces", &mut out);
    put_texts(7, operation, "consumes", &mut out);
    put_parameters(8, operation, &mut out);
    put_bytes(9, b"", &mut out);
    put_extensions(13, operation, &mut out);
    out
}

/// Encodes query and path parameters. The message represents bodies by their media types only.
fn put_parameters(number: u32, parent: &Value, out: &mut Vec<u8>) {
    for parameter in items(parent, "parameters") {
        let location = match text(parameter, "in") {
            "query" => 3,
            "path" => 4,
            _ => continue,
        };
        let mut encoded = Vec::new();
        if flag_if_set(parameter, "required") == Some(true) {
            put_varint(1, 1, &mut encoded);
        }
        put_text(2, text(parameter, "in"), &mut encoded);
        put_text(3, text(parameter, "description"), &mut encoded);
        put_text(4, text(parameter, "name"), &mut encoded);
        let type_number = if location == 3 { 6 } else { 5 };
        put_text(type_number, text(parameter, "type"), &mut encoded);
        // Wrap the parameter in its oneof messages, from the inside out.
        let mut wrapped = encoded;
        for kind in [location, 2, 1] {
            let mut outer = Vec::new();
            put_bytes(kind, &wrapped, &mut outer);
            wrapped = outer;
        }
        put_bytes(number, &wrapped, out);
    }
}

fn schema(schema: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put_text(1, text(schema, "$ref"), &mut out);
    put_text(2, text(schema, "format"), &mut out);
    put_text(4, text(schema, "description"), &mut out);
    put_texts(19, schema, "required", &mut out);
    if let Some(values) = schema
        .get("additionalProperties")
        .filter(|values| values.is_object())
    {
        let mut additional = Vec::new();
        put_bytes(1, &self::schema(values), &mut additional);
        put_bytes(21, &additional, &mut out);
    }
    if !text(schema, "type").is_empty() {
        let mut types = Vec::new();
        put_text(1, text(schema, "type"), &mut types);
        put_bytes(22, &types, &mut out);
    }
    if let Some(item) = schema.get("items") {
        let mut items = Vec::new();
        put_bytes(1, &self::schema(item), &mut items);
        put_bytes(23, &items, &mut out);
    }
    if let Some(properties) = schema.get("properties") {
        put_bytes(25, &encode_named(1, properties, self::schema), &mut out);
    }
    put_extensions(31, schema, &mut out);
    out
}

/// Encodes extensions as YAML, for which JSON is valid.
fn put_extensions(number: u32, parent: &Value, out: &mut Vec<u8>) {
    let fields = parent.as_object().into_iter().flatten();
    for (name, value) in fields.filter(|(name, _)| name.starts_with("x-")) {
        let (mut any, mut entry) = (Vec::new(), Vec::new());
        put_text(2, &value.to_string(), &mut any);
        put_text(1, name, &mut entry);
        put_bytes(2, &any, &mut entry);
        put_bytes(number, &entry, out);
    }
}

fn put_texts(number: u32, parent: &Value, field: &str, out: &mut Vec<u8>) {
    for text in texts(parent, field) {
        put_text(number, text, out);
    }
}

fn put_text(number: u32, text: &str, out: &mut Vec<u8>) {
    if !text.is_empty() {
        put_bytes(number, text.as_bytes(), out);
    }
}
