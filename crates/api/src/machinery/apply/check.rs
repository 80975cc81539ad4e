//! Validation of an applied configuration. Server-side apply always rejects unknown fields.

use std::collections::BTreeSet;

use serde_json::Value;

use super::field_set::PathElement;
use super::layout::Layout;
use crate::kinds::kind::Kind;
use crate::machinery::schema::{Definition, Shape, schema};

/// Maximum number of reported errors of one configuration, so that the response stays readable.
const ERRORS_MAX: usize = 20;

/// Returns the errors of a configuration, each as `path: error`.
pub(super) fn errors(configuration: &Value, kind: &Kind) -> Vec<String> {
    let mut check = Check { errors: Vec::new() };
    if let Some(definition) = schema().of_kind(kind) {
        check.check_object(configuration, definition, Layout::of_kind(kind), "");
    }
    check.errors
}

/// Errors that were found so far.
struct Check {
    errors: Vec<String>,
}

impl Check {
    fn error(&mut self, path: &str, error: &str) {
        if self.errors.len() < ERRORS_MAX {
            let path = if path.is_empty() { "." } else { path };
            self.errors.push(format!("{path}: {error}"));
        }
    }

    fn mismatch(&mut self, path: &str, expected: &str, value: &Value) {
        let found = match value {
            Value::Object(_) => "a map".to_owned(),
            Value::Array(_) => "a list".to_owned(),
            scalar => scalar.to_string(),
        };
        self.error(path, &format!("expected {expected}, got {found}"));
    }

    fn check_value(&mut self, value: &Value, shape: &'static Shape, layout: Layout, path: &str) {
        match (shape, value) {
            (_, Value::Null) | (Shape::Free, _) => {}
            (Shape::Object(id), value) => self.check_object(value, schema().get(*id), layout, path),
            (Shape::Map(inner), Value::Object(entries)) => {
                for (key, value) in entries {
                    let element = PathElement::field(key);
                    self.check_value(value, inner, layout.child(&element), &format!("{path}{element}"));
                }
            }
            (Shape::Map(_), value) => self.mismatch(path, "map", value),
            (Shape::List(inner), Value::Array(items)) => self.check_items(items, inner, layout, path),
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

    fn check_object(&mut self, value: &Value, definition: &'static Definition, layout: Layout, path: &str) {
        let Some(fields) = value.as_object() else {
            return self.mismatch(path, "map", value);
        };
        for (name, value) in fields {
            let element = PathElement::field(name);
            let child = format!("{path}{element}");
            match definition.field(name) {
                Some(field) => self.check_value(value, &field.shape, layout.child(&element), &child),
                None => self.error(&child, "field not declared in schema"),
            }
        }
    }

    fn check_items(&mut self, items: &[Value], inner: &'static Shape, layout: Layout, path: &str) {
        if !matches!(layout, Layout::Set | Layout::ListMap(..)) {
            for (index, item) in items.iter().enumerate() {
                self.check_value(item, inner, Layout::Leaf, &format!("{path}[{index}]"));
            }
            return;
        }
        let mut seen = BTreeSet::new();
        for item in items {
            match layout.element_of(item) {
                Ok(element) => {
                    self.check_value(item, inner, layout.child(&element), &format!("{path}{element}"));
                    if seen.contains(&element) {
                        self.error(path, &format!("duplicate entries for key {element}"));
                    }
                    seen.insert(element);
                }
                Err(fault) => self.error(path, &format!("element: {fault}")),
            }
        }
    }
}
