//! OpenAPI paths of kinds, with parameters and responses of each method.

use serde_json::{Map, Value, json};

use super::definitions::{DELETE_OPTIONS, PATCH, STATUS, list_definition};
use super::parameters::parameters;
use crate::kinds::kind::Kind;

/// An operation: HTTP method, `x-kubernetes-action`, and prefix of the operation ID.
struct Operation {
    method: &'static str,
    action: &'static str,
    id: &'static str,
}

const LIST: Operation = operation("get", "list", "list");
const CREATE: Operation = operation("post", "post", "create");
const DELETE_COLLECTION: Operation = operation("delete", "deletecollection", "deleteCollection");
const READ: Operation = operation("get", "get", "read");
const REPLACE: Operation = operation("put", "put", "replace");
const PATCH_ONE: Operation = operation("patch", "patch", "patch");
const DELETE: Operation = operation("delete", "delete", "delete");

const fn operation(method: &'static str, action: &'static str, id: &'static str) -> Operation {
    Operation { method, action, id }
}

/// Returns the paths of kinds that share a group and version.
pub(super) fn of(kinds: &[&Kind]) -> Value {
    let mut paths = Map::new();
    for kind in kinds {
        let root = kind.root_path();
        let collection = if kind.namespaced {
            if kind.is_stored() {
                paths.insert(format!("{root}/{}", kind.plural), across_namespaces(kind));
            }
            format!("{root}/namespaces/{{namespace}}/{}", kind.plural)
        } else {
            format!("{root}/{}", kind.plural)
        };
        let object = format!("{collection}/{{name}}");
        paths.extend(subresource_paths(kind, &object));
        let collection_operations = [
            (LIST, "list"),
            (CREATE, "create"),
            (DELETE_COLLECTION, "deletecollection"),
        ]
        .into_iter()
        .filter(|(_, verb)| kind.verbs.contains(verb))
        .map(|(operation, _)| operation);
        paths.insert(
            collection,
            item(kind, kind, collection_operations, "", &["namespace"]),
        );
        if !kind.is_stored() {
            continue;
        }
        let object_operations = [READ, REPLACE, PATCH_ONE, DELETE];
        paths.insert(
            object,
            item(
                kind,
                kind,
                object_operations.into_iter(),
                "",
                &["namespace", "name"],
            ),
        );
    }
    Value::Object(paths)
}

/// Returns the paths of the subresources of an object path. Proxy subresources have no schema and are omitted.
fn subresource_paths(kind: &Kind, object: &str) -> impl Iterator<Item = (String, Value)> {
    let with_schema = kind
        .subresources
        .iter()
        .filter(|subresource| subresource.kind.is_none());
    with_schema.map(move |subresource| {
        let operations = [
            (READ, "get"),
            (REPLACE, "update"),
            (PATCH_ONE, "patch"),
            (CREATE, "create"),
        ]
        .into_iter()
        .filter(|(_, verb)| subresource.verbs.contains(verb))
        .map(|(operation, _)| operation);
        let path = format!("{object}/{}", subresource.name);
        let sent = subresource.body_kind.unwrap_or(kind);
        let suffix = capitalize(subresource.name);
        (
            path,
            item(kind, sent, operations, &suffix, &["namespace", "name"]),
        )
    })
}

/// Returns the list path over all namespaces.
fn across_namespaces(kind: &Kind) -> Value {
    item(kind, kind, std::iter::once(LIST), "ForAllNamespaces", &[])
}

/// Returns one path with its operations. Requests and responses contain objects of the kind `sent`; `placeholders`
/// are the path parameters.
fn item(
    kind: &Kind,
    sent: &Kind,
    operations: impl Iterator<Item = Operation>,
    suffix: &str,
    placeholders: &[&str],
) -> Value {
    let mut path = Map::new();
    for operation in operations {
        path.insert(
            operation.method.to_owned(),
            describe(kind, sent, &operation, suffix),
        );
    }
    let parameters: Vec<Value> = placeholders
        .iter()
        .filter(|name| kind.namespaced || **name != "namespace")
        .map(|name| {
            json!({
                "name": name,
                "in": "path",
                "required": true,
                "description": format!("The {name} of the {}.", kind.kind),
                "schema": {"type": "string", "uniqueItems": true},
            })
        })
        .collect();
    if !parameters.is_empty() {
        path.insert("parameters".into(), parameters.into());
    }
    Value::Object(path)
}

fn describe(kind: &Kind, sent: &Kind, operation: &Operation, suffix: &str) -> Value {
    let group = capitalize(
        kind.group
            .split('.')
            .next()
            .filter(|name| !name.is_empty())
            .unwrap_or("core"),
    );
    let version = capitalize(kind.version);
    let scope = if kind.namespaced && suffix != "ForAllNamespaces" {
        "Namespaced"
    } else {
        ""
    };
    let mut description = json!({
        "operationId": format!("{}{group}{version}{scope}{}{suffix}", operation.id, kind.kind),
        "description": format!("{} {}", operation.id, kind.kind),
        "tags": [format!("{}_{}", group.to_lowercase(), kind.version)],
        "parameters": parameters(operation.action),
        "responses": responses(sent, operation.action),
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": {"group": sent.group, "kind": sent.kind, "version": sent.version},
    });
    if let Some(body) = request_body(sent, operation.action) {
        description["requestBody"] = body;
    }
    description
}

fn request_body(kind: &Kind, action: &str) -> Option<Value> {
    const PATCH_TYPES: &[&str] = &[
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ];
    const OBJECT_TYPES: &[&str] = &["application/json", "application/yaml"];
    let (types, definition, required) = match action {
        "post" | "put" => (OBJECT_TYPES, kind.definition, true),
        "patch" => (PATCH_TYPES, PATCH, true),
        "delete" | "deletecollection" => (OBJECT_TYPES, DELETE_OPTIONS, false),
        _ => return None,
    };
    Some(json!({"content": content(types, definition), "required": required}))
}

fn responses(kind: &Kind, action: &str) -> Value {
    const TYPES: &[&str] = &["application/json", "application/yaml"];
    let list = list_definition(kind);
    let definition = match action {
        "list" => list.as_str(),
        "deletecollection" => STATUS,
        "delete" if !kind.delete_returns_object => STATUS,
        _ => kind.definition,
    };
    let response =
        |description: &str| json!({"description": description, "content": content(TYPES, definition)});
    let mut responses = json!({"200": response("OK"), "401": {"description": "Unauthorized"}});
    if matches!(action, "post" | "put" | "patch") {
        responses["201"] = response("Created");
    }
    responses
}

fn content(types: &[&str], definition: &str) -> Value {
    let schema = json!({"schema": {"$ref": format!("#/components/schemas/{definition}")}});
    let content: Map<String, Value> = types
        .iter()
        .map(|name| ((*name).to_owned(), schema.clone()))
        .collect();
    Value::Object(content)
}

fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
