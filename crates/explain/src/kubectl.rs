//! Commands of remedies.

use serde_json::{Value, json};

use crate::object::Object;

/// Returns the options that select the namespace of an object.
fn namespace(object: &Object) -> String {
    if object.namespace.is_empty() {
        String::new()
    } else {
        format!(" -n {}", object.namespace)
    }
}

fn resource(object: &Object) -> String {
    object.kind.name().to_ascii_lowercase()
}

/// Returns `kubectl VERB KIND NAME` for an object.
pub fn command(verb: &str, object: &Object) -> String {
    format!(
        "kubectl{} {verb} {} {}",
        namespace(object),
        resource(object),
        object.name
    )
}

/// Returns the command that replaces the value at a JSON pointer.
pub fn replace(object: &Object, pointer: &str, value: impl Into<Value>) -> String {
    patch(
        object,
        &json!([{"op": "replace", "path": pointer, "value": value.into()}]),
    )
}

/// Returns the command that adds the value at a JSON pointer, or replaces it.
pub fn add(object: &Object, pointer: &str, value: impl Into<Value>) -> String {
    patch(
        object,
        &json!([{"op": "add", "path": pointer, "value": value.into()}]),
    )
}

/// Returns the command that removes the value at a JSON pointer.
pub fn remove(object: &Object, pointer: &str) -> String {
    patch(object, &json!([{"op": "remove", "path": pointer}]))
}

fn patch(object: &Object, operations: &Value) -> String {
    format!("{} --type=json -p '{operations}'", command("patch", object))
}

/// Returns the command that merges a tree into an object.
pub fn merge(object: &Object, tree: &Value) -> String {
    format!("{} --type=merge -p '{tree}'", command("patch", object))
}

/// Returns the command that replaces the selector of a Service.
pub fn set_selector<'l>(service: &Object, labels: impl IntoIterator<Item = (&'l str, &'l str)>) -> String {
    let pairs: Vec<String> = labels
        .into_iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    format!(
        "kubectl{} set selector service {} '{}'",
        namespace(service),
        service.name,
        pairs.join(",")
    )
}
