//! Label selectors as objects (meta/v1): `matchLabels` and `matchExpressions`.

use serde_json::Value;

use super::labels::{LabelSelector, Operator, Requirement};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{push_faults, validate_labels};
use crate::machinery::names;
use crate::machinery::tree::{entries, items, text, texts};

impl LabelSelector {
    /// Converts the `LabelSelector` object at `path`.
    ///
    /// # Errors
    /// All violations of the rules of meta/v1.
    pub fn from_object(path: &Path, selector: &Value) -> Result<Self, FieldErrors> {
        let mut errors = Vec::new();
        let labels = || entries(selector, "matchLabels");
        validate_labels(&mut errors, &path.child("matchLabels"), labels());
        let mut requirements: Vec<Requirement> = labels()
            .map(|(key, value)| Requirement {
                key: key.to_owned(),
                operator: Operator::In,
                values: vec![value.to_owned()],
            })
            .collect();
        let path = path.child("matchExpressions");
        for (index, expression) in items(selector, "matchExpressions").iter().enumerate() {
            requirements.extend(requirement(&mut errors, &path.index(index), expression));
        }
        if errors.is_empty() {
            Ok(Self::of(requirements))
        } else {
            Err(errors)
        }
    }
}

/// Formats a valid `LabelSelector` object, "" if it is empty. As upstream's `metav1.FormatLabelSelector`: an expression with
/// one value has the form `key in (value)`, and repeated values stay.
pub fn format_object(selector: &Value) -> String {
    let labels = entries(selector, "matchLabels").map(|(key, value)| (key, format!("{key}={value}")));
    let expressions = items(selector, "matchExpressions").iter().map(|expression| {
        let key = text(expression, "key");
        let mut values = texts(expression, "values");
        values.sort_unstable();
        let values = values.join(",");
        let requirement = match text(expression, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        (key, requirement)
    });
    let mut requirements: Vec<(&str, String)> = labels.chain(expressions).collect();
    requirements.sort_by_key(|(key, _)| *key);
    let requirements: Vec<String> = requirements
        .into_iter()
        .map(|(_, requirement)| requirement)
        .collect();
    requirements.join(",")
}

/// Converts a requirement, in the order of upstream's `ValidateLabelSelectorRequirement`.
fn requirement(errors: &mut FieldErrors, path: &Path, expression: &Value) -> Option<Requirement> {
    let (key, operator) = (text(expression, "key"), text(expression, "operator"));
    let mut values: Vec<String> = texts(expression, "values")
        .into_iter()
        .map(str::to_owned)
        .collect();
    let known = match operator {
        "In" => Some((Operator::In, true)),
        "NotIn" => Some((Operator::NotIn, true)),
        "Exists" => Some((Operator::Exists, false)),
        "DoesNotExist" => Some((Operator::DoesNotExist, false)),
        _ => None,
    };
    match known {
        Some((_, true)) if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&path.child("values"), detail));
        }
        Some((_, false)) if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&path.child("values"), detail));
        }
        Some(_) => {}
        None => {
            let fault = "not a valid selector operator";
            errors.push(FieldError::invalid(&path.child("operator"), operator, fault));
        }
    }
    push_faults(errors, &path.child("key"), key, names::qualified_name(key));
    for (index, value) in values.iter().enumerate() {
        let path = path.child("values").index(index);
        push_faults(errors, &path, value, names::label_value(value));
    }
    let (operator, _) = known?;
    values.sort_unstable();
    values.dedup();
    Some(Requirement {
        key: key.to_owned(),
        operator,
        values,
    })
}

#[cfg(test)]
mod tests;
