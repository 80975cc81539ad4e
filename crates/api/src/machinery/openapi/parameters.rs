//! Query parameters of operations.

use serde_json::{Value, json};

/// Query parameter: name, type, description.
type Parameter = (&'static str, &'static str, &'static str);

const LIST_PARAMETERS: &[Parameter] = &[
    (
        "allowWatchBookmarks",
        "boolean",
        "Request bookmark events in a watch.",
    ),
    (
        "continue",
        "string",
        "Continue token of the previous response of a paged list.",
    ),
    (
        "fieldSelector",
        "string",
        "Field selector of the returned objects.",
    ),
    (
        "labelSelector",
        "string",
        "Label selector of the returned objects.",
    ),
    ("limit", "integer", "Maximum number of objects in one response."),
    (
        "resourceVersion",
        "string",
        "Revision of the list, or start of the watch.",
    ),
    (
        "resourceVersionMatch",
        "string",
        "Interpretation of resourceVersion: Exact or NotOlderThan.",
    ),
    (
        "sendInitialEvents",
        "boolean",
        "Begin a watch with synthetic events for existing objects.",
    ),
    (
        "timeoutSeconds",
        "integer",
        "Timeout of the list or watch, in seconds.",
    ),
    (
        "watch",
        "boolean",
        "Watch for changes instead of returning a list.",
    ),
];

const WRITE_PARAMETERS: &[Parameter] = &[
    (
        "dryRun",
        "string",
        "All: process the request without storing the result.",
    ),
    (
        "fieldManager",
        "string",
        "Name of the field manager of the change.",
    ),
    (
        "fieldValidation",
        "string",
        "Treatment of unknown and duplicate fields: Ignore, Warn or Strict.",
    ),
];

const PATCH_PARAMETERS: &[Parameter] = &[(
    "force",
    "boolean",
    "Acquire fields that other managers own, in a server-side apply.",
)];

const DELETE_PARAMETERS: &[Parameter] = &[
    (
        "dryRun",
        "string",
        "All: process the request without storing the result.",
    ),
    (
        "gracePeriodSeconds",
        "integer",
        "Grace period before the deletion, in seconds.",
    ),
    (
        "orphanDependents",
        "boolean",
        "Deprecated: orphan dependents; use propagationPolicy.",
    ),
    (
        "propagationPolicy",
        "string",
        "Treatment of dependents: Orphan, Background or Foreground.",
    ),
];

/// Returns the query parameters of an `x-kubernetes-action`.
pub(super) fn parameters(action: &str) -> Value {
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
