//! Field selectors: `metadata.name=x,spec.type!=NodePort`, and which fields each kind offers.

use std::borrow::Cow;

use serde_json::Value;

use super::SelectorError;
use crate::kinds::event;
use crate::kinds::kind::Kind;

/// A conjunction of conditions on fields of one kind; the empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// The field, one of those that the kind offers.
    pub field: &'static str,
    /// Whether the field must have the value, or must not.
    pub equal: bool,
    /// The value.
    pub value: String,
}

/// The fields that every kind with a namespace offers.
const METADATA: &[&str] = &["metadata.name", "metadata.namespace"];

/// The fields that a kind offers (API-11 for Services).
fn fields_of(kind: &str) -> &'static [&'static str] {
    match kind {
        "Service" => &[
            "metadata.name",
            "metadata.namespace",
            "spec.clusterIP",
            "spec.type",
        ],
        "Pod" => &[
            "metadata.name",
            "metadata.namespace",
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        "Event" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
            "metadata.namespace",
            "metadata.name",
        ],
        "Node" => &["metadata.name", "spec.unschedulable"],
        "Namespace" => &["metadata.name", "status.phase"],
        "Secret" => &["metadata.name", "metadata.namespace", "type"],
        _ => METADATA,
    }
}

impl FieldSelector {
    /// Reads a selector for objects of `kind`. A comma, an equals sign or a backslash in a value is escaped with a
    /// backslash.
    pub fn parse(text: &str, kind: &Kind) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        for part in split(text) {
            if part.is_empty() {
                continue;
            }
            let (name, equal, value) = divide(part).ok_or_else(|| {
                SelectorError(format!("invalid selector: '{text}'; can't understand '{part}'"))
            })?;
            let value = unescape(value)?;
            let stored_name = match kind.is_stored_form() {
                true => Cow::Borrowed(name),
                false => Cow::Owned(event::core_selector(name)),
            };
            let field = fields_of(kind.kind)
                .iter()
                .find(|f| **f == stored_name)
                .ok_or_else(|| not_supported(name, kind))?;
            terms.push(FieldTerm { field, equal, value });
        }
        Ok(Self { terms })
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The conditions, all of which must hold.
    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// The value that `field` must have, if the selector says so: with `metadata.name` one key is enough to read.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.terms
            .iter()
            .find(|t| t.equal && t.field == field)
            .map(|t| t.value.as_str())
    }

    /// Whether an object matches.
    pub fn matches_object(&self, object: &Value) -> bool {
        self.terms
            .iter()
            .all(|t| (read(object, t.field) == t.value.as_str()) == t.equal)
    }
}

fn not_supported(field: &str, kind: &Kind) -> SelectorError {
    let text = if fields_of(kind.kind) == METADATA {
        format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    } else {
        format!("field label not supported: {field}")
    };
    SelectorError(text)
}

/// The value of a field as selectors see it: "" if it is absent.
fn read<'o>(object: &'o Value, field: &str) -> Cow<'o, str> {
    match field {
        "spec.unschedulable" | "spec.hostNetwork" => {
            Cow::Borrowed(if at(object, field) == Some(&Value::Bool(true)) {
                "true"
            } else {
                "false"
            })
        }
        "source" => {
            let component = text(object, "source.component");
            Cow::Borrowed(if component.is_empty() {
                text(object, "reportingComponent")
            } else {
                component
            })
        }
        "status.podIPs" => {
            let list = at(object, field)
                .and_then(Value::as_array)
                .map_or(&[][..], Vec::as_slice);
            let addresses: Vec<&str> = list.iter().map(|entry| text(entry, "ip")).collect();
            Cow::Owned(addresses.join(","))
        }
        _ => Cow::Borrowed(text(object, field)),
    }
}

fn text<'o>(object: &'o Value, path: &str) -> &'o str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

fn at<'o>(object: &'o Value, path: &str) -> Option<&'o Value> {
    path.split('.').try_fold(object, |tree, field| tree.get(field))
}

/// Splits at the commas that are not escaped.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Field, whether it must be equal, and value as written.
fn divide(part: &str) -> Option<(&str, bool, &str)> {
    let mut escaped = false;
    for (at, byte) in part.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'!' | b'=' => {
                let rest = &part[at..];
                for (sign, equal) in [("!=", false), ("==", true), ("=", true)] {
                    if let Some(value) = rest.strip_prefix(sign) {
                        return Some((&part[..at], equal, value));
                    }
                }
            }
            _ => {}
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(SelectorError(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    )));
                }
            },
            ',' | '=' => {
                return Err(SelectorError(format!(
                    "invalid field selector: unescaped character in value: {c}"
                )));
            }
            _ => plain.push(c),
        }
    }
    Ok(plain)
}
