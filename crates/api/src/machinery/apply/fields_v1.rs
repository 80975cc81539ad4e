//! `FieldsV1`, the form in which sets of fields are kept in `metadata.managedFields`.
//!
//! Every field is a key of a JSON object, with the fields below it as its value: `f:` and a name, `k:` and the key of
//! a list item, `v:` and the value of a set's item, `i:` and a position. `.` stands for the field itself where there
//! are fields below it too.

use serde_json::{Map, Value};

use super::field_set::{FieldSet, PathElement, Scalar};

/// The field itself.
pub(super) const SELF: &str = ".";

/// Reads a set; none if it does not have the form.
pub(super) fn read(fields: &Value) -> Option<FieldSet> {
    let mut set = FieldSet::default();
    for (key, below) in fields.as_object()? {
        if key == SELF {
            continue;
        }
        let element = read_element(key)?;
        let below_fields = below.as_object()?;
        if below_fields.is_empty() || below_fields.contains_key(SELF) {
            set.members.insert(element.clone());
        }
        set.insert_below(element, read(below)?);
    }
    Some(set)
}

/// Writes a set.
pub(super) fn write(set: &FieldSet) -> Value {
    let mut fields = Map::new();
    for element in &set.members {
        fields.insert(write_element(element), Value::Object(Map::new()));
    }
    for (element, child) in &set.children {
        let mut below = Map::new();
        if set.members.contains(element) {
            below.insert(SELF.to_owned(), Value::Object(Map::new()));
        }
        if let Value::Object(inner) = write(child) {
            below.extend(inner);
        }
        fields.insert(write_element(element), Value::Object(below));
    }
    fields.sort_keys();
    Value::Object(fields)
}

fn read_element(key: &str) -> Option<PathElement> {
    let (form, text) = key.split_once(':')?;
    let parsed = || serde_json::from_str::<Value>(text).ok();
    match form {
        "f" => Some(PathElement::field(text)),
        "i" => text.parse().ok().map(PathElement::Index),
        "v" => Some(PathElement::Value(Scalar::of(&parsed()?))),
        "k" => {
            let mut fields: Vec<(String, Scalar)> = parsed()?
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

/// Writes one step on the way to a field.
pub(super) fn write_element(element: &PathElement) -> String {
    match element {
        PathElement::Field(name) => format!("f:{name}"),
        PathElement::Index(index) => format!("i:{index}"),
        PathElement::Value(value) => format!("v:{value}"),
        PathElement::Key(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
                .collect();
            format!("k:{{{}}}", fields.join(","))
        }
    }
}
