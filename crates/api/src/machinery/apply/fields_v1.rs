//! `FieldsV1`: the encoding of field sets in `metadata.managedFields`.
//!
//! A field is a key of a JSON object, and its value holds the fields below it. The prefix of a key states its
//! content: `f:` a field name, `k:` the key of a list item, `v:` the value of a set item, `i:` a position. `.` marks
//! the field itself if fields below it follow.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::field_set::{FieldSet, PathElement, Scalar};

/// Marker of the field itself.
pub(super) const SELF: &str = ".";

/// Parses a field set; `None` if it is malformed.
pub(super) fn parse(fields: &Value) -> Option<FieldSet> {
    let mut set = FieldSet::default();
    for (key, children) in fields.as_object()? {
        if key == SELF {
            continue;
        }
        let element = parse_element(key)?;
        let child_fields = children.as_object()?;
        if child_fields.is_empty() || child_fields.contains_key(SELF) {
            set.members.insert(element.clone());
        }
        set.insert_children(element, parse(children)?);
    }
    Some(set)
}

/// Formats a field set.
pub(super) fn format(set: &FieldSet) -> Value {
    let mut fields = Map::new();
    for element in &set.members {
        fields.insert(format_element(element), Value::Object(Map::new()));
    }
    for (element, child) in &set.children {
        let mut children = Map::new();
        if set.members.contains(element) {
            children.insert(SELF.to_owned(), Value::Object(Map::new()));
        }
        if let Value::Object(inner) = format(child) {
            children.extend(inner);
        }
        fields.insert(format_element(element), Value::Object(children));
    }
    fields.sort_keys();
    Value::Object(fields)
}

fn parse_element(key: &str) -> Option<PathElement> {
    let (form, text) = key.split_once(':')?;
    let value = || serde_json::from_str::<Value>(text).ok();
    match form {
        "f" => Some(PathElement::field(text)),
        "i" => text.parse().ok().map(PathElement::Index),
        "v" => Some(PathElement::Value(Scalar::of(&value()?))),
        "k" => {
            let mut fields: Vec<(String, Scalar)> = value()?
                .as_object()?
                .iter()
                .map(|(name, value)| (name.clone(), Scalar::of(value)))
                .collect();
            fields.sort();
            Some(PathElement::Key(fields))
        }
        _ => None,
    }
}

/// Formats a path element.
pub(super) fn format_element(element: &PathElement) -> String {
    match element {
        PathElement::Field(name) => format!("f:{name}"),
        PathElement::Index(index) => format!("i:{index}"),
        PathElement::Value(value) => format!("v:{}", escape_as_go(&value.to_string())),
        PathElement::Key(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
                .collect();
            format!("k:{{{}}}", escape_as_go(&fields.join(",")))
        }
    }
}

/// Escapes the letters of JSON texts that Go escapes: those with a meaning in HTML or JavaScript.
fn escape_as_go(json: &str) -> Cow<'_, str> {
    const SPECIAL: [char; 5] = ['<', '>', '&', '\u{2028}', '\u{2029}'];
    if !json.contains(SPECIAL) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 8);
    for letter in json.chars() {
        if SPECIAL.contains(&letter) {
            out.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            out.push(letter);
        }
    }
    Cow::Owned(out)
}
