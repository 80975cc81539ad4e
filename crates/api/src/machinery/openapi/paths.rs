//! The paths of kinds: what each method takes and answers.

use serde_json::{Map, Value, json};

use super::definitions::{DELETE_OPTIONS, PATCH, STATUS, list_definition};
use crate::kinds::kind::Kind;

/// An operation: the method, the word of `x-kubernetes-action`, and the start of its id.
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

/// Query parameters: name, type, what it does.
type Parameter = (&'static str, &'static str, &'static str);

const LIST_PARAMETERS: &[Parameter] = &[
    (
        "allowWatchBookmarks",
        "boolean",
        "Ask for bookmark events in a watch.",
    ),
    (
        "continue",
        "string",
        "Where to continue a list, from the answer before.",
    ),
    ("fieldSelector", "string", "Only objects whose fields match."),
    ("labelSelector", "string", "Only objects whose labels match."),
    ("limit", "integer", "At most so many objects in one answer."),
    (
        "resourceVersion",
        "string",
        "The revision to read at or watch from.",
    ),
    (
        "resourceVersionMatch",
        "string",
        "How resourceVersion is meant: Exact or NotOlderThan.",
    ),
    (
        "sendInitialEvents",
        "boolean",
        "Begin a watch with the objects there are.",
    ),
    ("timeoutSeconds", "integer", "How long the call may take."),
    ("watch", "boolean", "Send changes as they happen."),
];

const WRITE_PARAMETERS: &[Parameter] = &[
    ("dryRun", "string", "All: do everything but keep the result."),
    ("fieldManager", "string", "Who makes the change."),
    (
        "fieldValidation",
        "string",
        "What is done about unknown and duplicate fields: Ignore, Warn or Strict.",
    ),
];

const PATCH_PARAMETERS: &[Parameter] = &[(
    "force",
    "boolean",
    "Take over fields that others own, in an apply.",
)];

const DELETE_PARAMETERS: &[Parameter] = &[
    ("dryRun", "string", "All: do everything but keep the result."),
    (
        "gracePeriodSeconds",
        "integer",
        "Seconds before the object is deleted.",
    ),
    (
        "orphanDependents",
        "boolean",
        "Whether dependents are left alone; propagationPolicy replaces it.",
    ),
    (
        "propagationPolicy",
        "string",
        "What is done about dependents: Orphan, Background or Foreground.",
    ),
];

/// The paths of kinds that share a group and version.
pub(super) fn of(kinds: &[&Kind]) -> Value {
    let mut paths = Map::new();
    for kind in kinds {
        let root = kind.root_path();
        let collection = if kind.namespaced {
            if kind.is_kept() {
                paths.insert(format!("{root}/{}", kind.plural), across_namespaces(kind));
            }
            format!("{root}/namespaces/{{namespace}}/{}", kind.plural)
        } else {
            format!("{root}/{}", kind.plural)
        };
        let object = format!("{collection}/{{name}}");
        // What passes requests on has no form of its own to describe.
        for subresource in kind.subresources.iter().filter(|s| s.kind.is_none()) {
            let suffix = capitalised(subresource.name);
            let operations = [
                (READ, "get"),
                (REPLACE, "update"),
                (PATCH_ONE, "patch"),
                (CREATE, "create"),
            ]
            .into_iter()
            .filter(|(_, verb)| subresource.verbs.contains(verb))
            .map(|(operation, _)| operation);
            paths.insert(
                format!("{object}/{}", subresource.name),
                item(
                    kind,
                    subresource.sent.unwrap_or(kind),
                    operations,
                    &suffix,
                    &["namespace", "name"],
                ),
            );
        }
        let of_collection = [
            (LIST, "list"),
            (CREATE, "create"),
            (DELETE_COLLECTION, "deletecollection"),
        ]
        .into_iter()
        .filter(|(_, verb)| kind.verbs.contains(verb))
        .map(|(operation, _)| operation);
        paths.insert(collection, item(kind, kind, of_collection, "", &["namespace"]));
        if !kind.is_kept() {
            continue;
        }
        let of_object = [READ, REPLACE, PATCH_ONE, DELETE];
        paths.insert(
            object,
            item(kind, kind, of_object.into_iter(), "", &["namespace", "name"]),
        );
    }
    Value::Object(paths)
}

/// The list over all namespaces.
fn across_namespaces(kind: &Kind) -> Value {
    item(kind, kind, std::iter::once(LIST), "ForAllNamespaces", &[])
}

/// One path with its operations, at which objects of the kind `sent` are sent and answered; `placeholders` are the
/// parts of the path in braces.
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
            described(kind, sent, &operation, suffix),
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

fn described(kind: &Kind, sent: &Kind, operation: &Operation, suffix: &str) -> Value {
    let group = capitalised(
        kind.group
            .split('.')
            .next()
            .filter(|g| !g.is_empty())
            .unwrap_or("core"),
    );
    let version = capitalised(kind.version);
    let scope = if kind.namespaced && suffix != "ForAllNamespaces" {
        "Namespaced"
    } else {
        ""
    };
    let mut described = json!({
        "operationId": format!("{}{group}{version}{scope}{}{suffix}", operation.id, kind.kind),
        "description": format!("{} {}", operation.id, kind.kind),
        "tags": [format!("{}_{}", group.to_lowercase(), kind.version)],
        "parameters": parameters(operation.action),
        "responses": responses(sent, operation.action),
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": {"group": sent.group, "kind": sent.kind, "version": sent.version},
    });
    if let Some(body) = request_body(sent, operation.action) {
        described["requestBody"] = body;
    }
    described
}

fn parameters(action: &str) -> Value {
    let lists: &[&[Parameter]] = match action {
        "list" => &[LIST_PARAMETERS],
        "post" | "put" => &[WRITE_PARAMETERS],
        "patch" => &[WRITE_PARAMETERS, PATCH_PARAMETERS],
        "delete" => &[DELETE_PARAMETERS],
        "deletecollection" => &[LIST_PARAMETERS, DELETE_PARAMETERS],
        _ => &[],
    };
    lists
        .iter()
        .copied()
        .flatten()
        .map(|(name, kind, description)| {
            json!({
                "name": name,
                "in": "query",
                "description": description,
                "schema": {"type": kind, "uniqueItems": true},
            })
        })
        .collect()
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
    let answer =
        |description: &str| json!({"description": description, "content": content(TYPES, definition)});
    let mut responses = json!({"200": answer("OK"), "401": {"description": "Unauthorized"}});
    if matches!(action, "post" | "put" | "patch") {
        responses["201"] = answer("Created");
    }
    responses
}

fn content(types: &[&str], definition: &str) -> Value {
    let schema = json!({"schema": {"$ref": format!("#/components/schemas/{definition}")}});
    let content: Map<String, Value> = types.iter().map(|t| ((*t).to_owned(), schema.clone())).collect();
    Value::Object(content)
}

fn capitalised(word: &str) -> String {
    let mut chars = word.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
