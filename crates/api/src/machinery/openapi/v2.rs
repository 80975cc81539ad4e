//! The OpenAPI v2 document of all kinds, for older clients. It is converted from the v3 definitions and paths.

use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::{API_LEVEL, definitions, hash_of, paths};
use crate::kinds::kind::{self, Kind};

/// An encoded document with its hash.
#[derive(Debug)]
pub struct Document {
    /// Encoded document.
    pub bytes: Vec<u8>,
    /// SHA-256 in hexadecimal.
    pub hash: String,
}

/// Returns `/openapi/v2` as JSON.
pub fn json() -> &'static Document {
    static JSON: OnceLock<Document> = OnceLock::new();
    JSON.get_or_init(|| Document::new(build().to_string().into_bytes()))
}

/// Returns `/openapi/v2` as a protobuf message (`openapi.v2.Document`).
pub fn protobuf() -> &'static Document {
    static PROTOBUF: OnceLock<Document> = OnceLock::new();
    PROTOBUF.get_or_init(|| Document::new(super::v2_protobuf::document(&build())))
}

impl Document {
    fn new(bytes: Vec<u8>) -> Document {
        let hash = hash_of(std::iter::once(bytes.as_slice()));
        Document { bytes, hash }
    }
}

pub(super) fn build() -> Value {
    let kinds: Vec<&Kind> = kind::all().iter().collect();
    let mut all_paths = Map::new();
    if let Value::Object(paths) = paths::of(&kinds) {
        for (path, item) in paths {
            all_paths.insert(path, path_item(item));
        }
    }
    let mut all_definitions = Map::new();
    for line in definitions::reachable_from(&kinds) {
        // A line is one entry `"name":{…}`, so braces make it an object.
        if let Ok(Value::Object(entry)) = serde_json::from_str::<Value>(&format!("{{{line}}}")) {
            all_definitions.extend(entry.into_iter().map(|(name, value)| (name, schema(value))));
        }
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": API_LEVEL},
        "paths": all_paths,
        "definitions": all_definitions,
    })
}

/// Converts a schema to v2, which has no alternatives and no wrapper for the description of a reference.
fn schema(value: Value) -> Value {
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Array(items) => return items.into_iter().map(schema).collect(),
        Value::String(text) => return convert_reference(text).into(),
        other => return other,
    };
    let mut out = Map::new();
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("allOf", Value::Array(parts)) => {
                if let Some(Value::Object(only)) = parts.into_iter().next() {
                    out.extend(only.into_iter().map(|(name, value)| (name, schema(value))));
                }
            }
            // v2 has no alternatives; clients expect type `string` with the format `int-or-string`.
            ("oneOf", _) => {
                out.insert("type".into(), "string".into());
            }
            ("nullable", _) => {}
            ("description", text) => {
                out.insert(name, text);
            }
            (_, value) => {
                out.insert(name, schema(value));
            }
        }
    }
    Value::Object(out)
}

fn convert_reference(text: String) -> String {
    match text.strip_prefix("#/components/schemas/") {
        Some(name) => format!("#/definitions/{name}"),
        None => text,
    }
}

fn path_item(item: Value) -> Value {
    let Value::Object(fields) = item else { return item };
    let fields = fields.into_iter().map(|(name, value)| match name.as_str() {
        "parameters" => (name, parameters(value)),
        _ => {
            let operation = operation(value);
            (name, operation)
        }
    });
    Value::Object(fields.collect())
}

fn operation(mut operation: Value) -> Value {
    let Some(fields) = operation.as_object_mut() else {
        return operation;
    };
    let body = fields.shift_remove("requestBody");
    let mut all = fields
        .shift_remove("parameters")
        .map_or_else(Vec::new, |value| match parameters(value) {
            Value::Array(items) => items,
            _ => Vec::new(),
        });
    if let Some(body) = body {
        let (types, schema) = content(&body);
        fields.insert("consumes".into(), types.into());
        all.push(json!({
            "name": "body",
            "in": "body",
            "required": body["required"],
            "schema": schema,
        }));
    }
    fields.insert("parameters".into(), all.into());
    let mut produced = Vec::new();
    if let Some(Value::Object(responses)) = fields.get_mut("responses") {
        for response in responses.values_mut() {
            let (types, schema) = content(response);
            if !types.is_empty() {
                produced = types;
                *response = json!({"description": response["description"], "schema": schema});
            }
        }
    }
    fields.insert("produces".into(), produced.into());
    operation
}

/// Returns media types and schema of a body.
fn content(body: &Value) -> (Vec<String>, Value) {
    let Some(content) = body.get("content").and_then(Value::as_object) else {
        return (Vec::new(), Value::Null);
    };
    let types = content.keys().cloned().collect();
    let first = content.values().next().map(|media| media["schema"].clone());
    (types, first.map_or(Value::Null, schema))
}

/// Converts parameters: v2 has the fields of the schema in the parameter itself.
fn parameters(parameters: Value) -> Value {
    let Value::Array(items) = parameters else {
        return parameters;
    };
    let flat = items.into_iter().map(|mut parameter| {
        if let Some(fields) = parameter.as_object_mut()
            && let Some(Value::Object(schema)) = fields.shift_remove("schema")
        {
            fields.extend(schema);
        }
        parameter
    });
    flat.collect()
}
