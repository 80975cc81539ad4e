//! Label selectors, for example `app=x,env in (a,b),!old`.

use std::fmt;

use serde_json::Value;

use crate::machinery::field::{FieldError, Path};
use crate::machinery::names;
use crate::machinery::tree;

/// Bytes of the errors of a requirement, after which no further ones are added.
const ERRORS_BYTES_MAX: usize = 64 << 10;

/// A conjunction of requirements on labels. The empty selector matches all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// Requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Label key.
    pub key: String,
    /// Comparison operator.
    pub operator: Operator,
    /// Operands, sorted.
    pub values: Vec<String>,
}

/// Operator of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The label has one of the values (`=`, `==`, `in`).
    In,
    /// The label is absent, or has none of the values (`!=`, `notin`).
    NotIn,
    /// The label exists.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer greater than the value.
    GreaterThan,
    /// The label is an integer less than the value.
    LessThan,
}

impl LabelSelector {
    /// Creates a selector of these requirements.
    pub(super) fn of(requirements: Vec<Requirement>) -> Self {
        Self { requirements }
    }

    /// Returns true if the selector matches all objects.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns the requirements, all of which have to hold.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Returns true if labels match; `label` returns the value of a key.
    pub fn matches<'v>(&self, label: impl Fn(&str) -> Option<&'v str>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.matches(label(&requirement.key)))
    }

    /// Returns true if the labels of an object match.
    pub fn matches_object(&self, object: &Value) -> bool {
        if self.is_empty() {
            return true;
        }
        let labels = tree::child(tree::child(object, "metadata"), "labels");
        self.matches(|key| labels.get(key).and_then(Value::as_str))
    }
}

/// Formats the selector for [`LabelSelector::parse`], with requirements sorted by key.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut requirements: Vec<&Requirement> = self.requirements.iter().collect();
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        for (index, requirement) in requirements.into_iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::In if self.values.len() == 1 => write!(f, "{key}={values}"),
            Operator::NotIn if self.values.len() == 1 => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        let has = |value: &str| {
            self.values
                .binary_search_by(|listed| listed.as_str().cmp(value))
                .is_ok()
        };
        match self.operator {
            Operator::In => value.is_some_and(has),
            Operator::NotIn => !value.is_some_and(has),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compare(value, |label, limit| label > limit),
            Operator::LessThan => self.compare(value, |label, limit| label < limit),
        }
    }

    fn compare(&self, value: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
        let label = value.and_then(|text| text.parse().ok());
        let limit = self.values.first().and_then(|text| text.parse().ok());
        matches!((label, limit), (Some(label), Some(limit)) if holds(label, limit))
    }

    /// Validates key and values as labels. The errors are bounded in size: each error of a value repeats the key.
    pub(super) fn validate(self) -> Result<Self, String> {
        let mut errors: Vec<String> = Vec::new();
        let mut bytes_left = ERRORS_BYTES_MAX;
        let mut add_error = |path: &Path, value: &str, detail: String| {
            let error = FieldError::invalid(path, value, detail).to_string();
            bytes_left = bytes_left.saturating_sub(error.len());
            errors.push(error);
            bytes_left > 0
        };
        let mut is_complete = names::qualified_name(&self.key)
            .into_iter()
            .all(|detail| add_error(&Path::new("key"), &self.key, detail));
        let is_order = matches!(self.operator, Operator::GreaterThan | Operator::LessThan);
        for (index, value) in self.values.iter().enumerate() {
            if !is_complete {
                break;
            }
            let path = Path::new("values").index(index);
            if is_order && value.parse::<i64>().is_err() {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                is_complete &= add_error(&path, value, detail.to_owned());
            }
            for detail in names::label_value(value) {
                is_complete &= add_error(&path.key(&self.key), value, detail);
            }
        }
        match errors.as_slice() {
            [] => Ok(self),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }
}
