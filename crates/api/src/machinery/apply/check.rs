//! Whether a configuration has the form of its kind: apply refuses unknown fields always.

use std::collections::BTreeSet;

use serde_json::Value;

use super::field_set::PathElement;
use super::layout::Layout;
use crate::kinds::kind::Kind;
use crate::machinery::schema::{Definition, Shape, schema};

/// Faults that are told of one configuration; more would only make the answer unreadable.
const FAULTS_MAX: usize = 20;

/// What is wrong with a configuration, as `path: fault` each.
pub(super) fn faults(configuration: &Value, kind: &Kind) -> Vec<String> {
    let mut check = Check { faults: Vec::new() };
    if let Some(definition) = schema().of_kind(kind) {
        check.object(configuration, definition, Layout::of_kind(kind), "");
    }
    check.faults
}

struct Check {
    faults: Vec<String>,
}

impl Check {
    fn fault(&mut self, path: &str, fault: &str) {
        if self.faults.len() < FAULTS_MAX {
            let path = if path.is_empty() { "." } else { path };
            self.faults.push(format!("{path}: {fault}"));
        }
    }

    fn mismatch(&mut self, path: &str, expected: &str, value: &Value) {
        let found = match value {
            Value::Object(_) => "a map".to_owned(),
            Value::Array(_) => "a list".to_owned(),
            scalar => scalar.to_string(),
        };
        self.fault(path, &format!("expected {expected}, got {found}"));
    }

    fn value(&mut self, value: &Value, shape: &'static Shape, layout: Layout, path: &str) {
        match (shape, value) {
            (_, Value::Null) | (Shape::Free, _) => {}
            (Shape::Object(id), value) => self.object(value, schema().get(*id), layout, path),
            (Shape::Map(inner), Value::Object(entries)) => {
                for (key, value) in entries {
                    let element = PathElement::field(key);
                    self.value(value, inner, layout.below(&element), &format!("{path}{element}"));
                }
            }
            (Shape::Map(_), value) => self.mismatch(path, "map", value),
            (Shape::List(inner), Value::Array(items)) => self.items(items, inner, layout, path),
            (Shape::List(_), value) => self.mismatch(path, "list", value),
            (Shape::Quantity | Shape::IntOrString, Value::Object(_) | Value::Array(_)) => {
                self.mismatch(path, "scalar", value);
            }
            (Shape::Boolean, value) if !value.is_boolean() => self.mismatch(path, "boolean", value),
            (Shape::Int32 | Shape::Int64 | Shape::Number, value) if !value.is_number() => {
                self.mismatch(path, "numeric (int or float)", value);
            }
            (Shape::String | Shape::Bytes | Shape::Time | Shape::MicroTime, value) if !value.is_string() => {
                self.mismatch(path, "string", value);
            }
            _ => {}
        }
    }

    fn object(&mut self, value: &Value, definition: &'static Definition, layout: Layout, path: &str) {
        let Some(fields) = value.as_object() else {
            return self.mismatch(path, "map", value);
        };
        for (name, value) in fields {
            let element = PathElement::field(name);
            let below = format!("{path}{element}");
            match definition.field(name) {
                Some(field) => self.value(value, &field.shape, layout.below(&element), &below),
                None => self.fault(&below, "field not declared in schema"),
            }
        }
    }

    fn items(&mut self, items: &[Value], inner: &'static Shape, layout: Layout, path: &str) {
        if !matches!(layout, Layout::Set | Layout::ListMap(..)) {
            for (index, item) in items.iter().enumerate() {
                self.value(item, inner, Layout::Leaf, &format!("{path}[{index}]"));
            }
            return;
        }
        let mut seen = BTreeSet::new();
        for item in items {
            match layout.element_of(item) {
                Ok(element) => {
                    self.value(item, inner, layout.below(&element), &format!("{path}{element}"));
                    if seen.contains(&element) {
                        self.fault(path, &format!("duplicate entries for key {element}"));
                    }
                    seen.insert(element);
                }
                Err(key) => self.fault(
                    path,
                    &format!(
                        "element: associative list with keys has an element that omits key field {key:?} \
                         (and doesn't have default value)"
                    ),
                ),
            }
        }
    }
}
