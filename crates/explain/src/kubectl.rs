//! Commands of remedies. All values are quoted: users paste the commands into a shell, and the values come from objects
//! that other users wrote.

use serde_json::{Value, json};

use crate::object::Object;

/// Returns true if a shell takes a text as one word and kubectl takes it as no flag. All names of Kubernetes are of
/// this form.
pub(crate) fn is_plain(text: &str) -> bool {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_.:".contains(character);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain)
}

/// Returns a word of a shell command: the text, in quotes if necessary.
pub(crate) fn word(text: &str) -> String {
    if is_plain(text) {
        text.to_owned()
    } else {
        single_quoted(text)
    }
}

/// Returns a text in single quotes for a shell.
fn single_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Returns the options that select the namespace of an object.
fn namespace(object: &Object) -> String {
    if object.namespace.is_empty() {
        String::new()
    } else {
        format!(" -n {}", object.namespace)
    }
}

fn resource(object: &Object) -> String {
    object.changed_kind().name().to_ascii_lowercase()
}

/// Returns `kubectl VERB KIND NAME` for an object.
pub(crate) fn command(verb: &str, object: &Object) -> String {
    format!(
        "kubectl{} {verb} {} {}",
        namespace(object),
        resource(object),
        object.name
    )
}

/// Returns the command that replaces the value at a JSON pointer.
pub(crate) fn replace(object: &Object, pointer: &str, value: impl Into<Value>) -> String {
    patch(
        object,
        &json!([{"op": "replace", "path": pointer, "value": value.into()}]),
    )
}

/// Returns the command that adds the value at a JSON pointer, or replaces it.
pub(crate) fn add(object: &Object, pointer: &str, value: impl Into<Value>) -> String {
    patch(
        object,
        &json!([{"op": "add", "path": pointer, "value": value.into()}]),
    )
}

/// Returns the command that removes the value at a JSON pointer.
pub(crate) fn remove(object: &Object, pointer: &str) -> String {
    patch(object, &json!([{"op": "remove", "path": pointer}]))
}

fn patch(object: &Object, operations: &Value) -> String {
    let operations = single_quoted(&operations.to_string());
    format!("{} --type=json -p {operations}", command("patch", object))
}

/// Returns the command that merges a tree into an object.
pub(crate) fn merge(object: &Object, tree: &Value) -> String {
    let tree = single_quoted(&tree.to_string());
    format!("{} --type=merge -p {tree}", command("patch", object))
}

/// Returns the command that replaces the selector of a Service.
pub(crate) fn set_selector<'l>(
    service: &Object,
    labels: impl IntoIterator<Item = (&'l str, &'l str)>,
) -> String {
    let pairs: Vec<String> = labels
        .into_iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    format!(
        "kubectl{} set selector service {} {}",
        namespace(service),
        service.name,
        single_quoted(&pairs.join(","))
    )
}

#[cfg(test)]
mod tests;
