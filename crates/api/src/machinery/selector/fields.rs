//! Field selectors (`metadata.name=x,spec.type!=NodePort`), and the supported fields of each kind.

use std::borrow::Cow;

use serde_json::Value;

use super::SelectorError;
use crate::kinds::event;
use crate::kinds::kind::Kind;

/// A conjunction of conditions on fields of one kind. The empty selector matches all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

/// Condition on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// The field, one of those that the kind supports.
    pub field: &'static str,
    /// True if the field must have the value, false if it must not.
    pub is_equal: bool,
    /// Compared value.
    pub value: String,
}

/// Fields that all namespaced kinds support.
const METADATA: &[&str] = &["metadata.name", "metadata.namespace"];

/// Returns the fields that a kind supports (API-11 for Services).
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
        "CertificateSigningRequest" => &["metadata.name", "spec.signerName"],
        "Node" => &["metadata.name", "spec.unschedulable"],
        "Namespace" => &["metadata.name", "status.phase"],
        "Secret" => &["metadata.name", "metadata.namespace", "type"],
        "ReplicationController" => &["metadata.name", "metadata.namespace", "status.replicas"],
        "Job" => &["metadata.name", "metadata.namespace", "status.successful"],
        _ => METADATA,
    }
}

impl FieldSelector {
    /// Parses a selector for objects of `kind`. In values, commas, equals signs and backslashes are escaped with a
    /// backslash.
    ///
    /// # Errors
    /// Fails for malformed text and for unsupported fields.
    pub fn parse(text: &str, kind: &Kind) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        for part in split(text) {
            if part.is_empty() {
                continue;
            }
            let (name, is_equal, value) = split_term(part).ok_or_else(|| {
                SelectorError(format!("invalid selector: '{text}'; can't understand '{part}'"))
            })?;
            // As upstream: a term without field and value selects everything, also with `!=`.
            if name.is_empty() && value.is_empty() {
                continue;
            }
            let value = unescape(value)?;
            let stored_name = if kind.group == event::GROUP {
                Cow::Owned(event::core_selector(name).ok_or_else(|| not_supported(name, kind))?)
            } else {
                Cow::Borrowed(name)
            };
            let field = fields_of(kind.kind)
                .iter()
                .find(|field| **field == stored_name)
                .ok_or_else(|| not_supported(name, kind))?;
            terms.push(FieldTerm {
                field,
                is_equal,
                value,
            });
        }
        Ok(Self { terms })
    }

    /// Returns true if the text is a selector for objects of any kind.
    pub fn is_well_formed(text: &str) -> bool {
        split(text)
            .into_iter()
            .filter(|part| !part.is_empty())
            .all(|part| split_term(part).is_some_and(|(_, _, value)| unescape(value).is_ok()))
    }

    /// Returns true if the selector matches all objects.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns the conditions, all of which have to hold.
    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// Returns the value that the selector requires of `field`. With `metadata.name`, a single read is sufficient.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.terms
            .iter()
            .find(|term| term.is_equal && term.field == field)
            .map(|term| term.value.as_str())
    }

    /// Returns true if the object matches.
    pub fn matches_object(&self, object: &Value) -> bool {
        self.terms
            .iter()
            .all(|term| (value_of(object, term.field) == term.value.as_str()) == term.is_equal)
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

/// Returns the value of a field in the form that selectors compare; "" if it is absent.
fn value_of<'o>(object: &'o Value, field: &str) -> Cow<'o, str> {
    match field {
        "spec.unschedulable" | "spec.hostNetwork" => {
            Cow::Borrowed(if value_at(object, field) == Some(&Value::Bool(true)) {
                "true"
            } else {
                "false"
            })
        }
        "status.replicas" => count_at(object, field),
        "status.successful" => count_at(object, "status.succeeded"),
        "source" => {
            let component = text(object, "source.component");
            Cow::Borrowed(if component.is_empty() {
                text(object, "reportingComponent")
            } else {
                component
            })
        }
        "status.podIPs" => {
            let list = value_at(object, field)
                .and_then(Value::as_array)
                .map_or(&[][..], Vec::as_slice);
            let addresses: Vec<&str> = list.iter().map(|entry| text(entry, "ip")).collect();
            Cow::Owned(addresses.join(","))
        }
        _ => Cow::Borrowed(text(object, field)),
    }
}

fn text<'o>(object: &'o Value, path: &str) -> &'o str {
    value_at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a number as upstream compares it: 0 if it is absent.
fn count_at(object: &Value, path: &str) -> Cow<'static, str> {
    let count = value_at(object, path).and_then(Value::as_i64).unwrap_or(0);
    Cow::Owned(count.to_string())
}

fn value_at<'o>(object: &'o Value, path: &str) -> Option<&'o Value> {
    path.split('.').try_fold(object, |tree, field| tree.get(field))
}

/// Splits at unescaped commas.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut is_escaped = false;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b',' => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Splits a term into field, equality and escaped value.
fn split_term(part: &str) -> Option<(&str, bool, &str)> {
    let mut is_escaped = false;
    for (index, byte) in part.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'!' | b'=' => {
                let rest = &part[index..];
                for (sign, is_equal) in [("!=", false), ("==", true), ("=", true)] {
                    if let Some(value) = rest.strip_prefix(sign) {
                        return Some((&part[..index], is_equal, value));
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
    while let Some(character) = chars.next() {
        match character {
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
                    "invalid field selector: unescaped character in value: {character}"
                )));
            }
            _ => plain.push(character),
        }
    }
    Ok(plain)
}
