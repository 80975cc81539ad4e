//! Field and label selectors in the resource attributes of access reviews.

use api::field::{FieldError, FieldErrors, Path};
use api::metadata::push_faults;
use api::names;
use api::selector::{FieldSelector, LabelSelector};
use api::tree::{child, is_set, items, text, texts};
use serde_json::Value;

const FIELDS: &str = "fieldSelector";
const LABELS: &str = "labelSelector";
const RAW: &str = "rawSelector";
const REQUIREMENTS: &str = "requirements";

/// Validates both selectors. As upstream, unknown operators are valid, because newer clients may use them.
pub(super) fn validate(errors: &mut FieldErrors, attributes: &Value) {
    for field in [FIELDS, LABELS] {
        if !is_set(attributes, field) {
            continue;
        }
        let selector = child(attributes, field);
        let path = Path::new("spec").child("resourceAttributes").child(field);
        let (raw, requirements) = (text(selector, RAW), items(selector, REQUIREMENTS));
        if !raw.is_empty() && !requirements.is_empty() {
            let fault = "may not specified at the same time as requirements";
            errors.push(FieldError::invalid(&path.child(RAW), raw, fault));
        }
        if raw.is_empty() && requirements.is_empty() {
            let detail = format!("when {path} is specified, requirements or rawSelector is required");
            errors.push(FieldError::required(&path.child(REQUIREMENTS), detail));
        }
        for (index, requirement) in requirements.iter().enumerate() {
            let path = path.child(REQUIREMENTS).index(index);
            validate_requirement(errors, requirement, field, &path);
        }
    }
}

fn validate_requirement(errors: &mut FieldErrors, requirement: &Value, field: &str, path: &Path) {
    let (key, values) = (text(requirement, "key"), texts(requirement, "values"));
    let at = path.child("values");
    match text(requirement, "operator") {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&at, detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&at, detail));
        }
        _ => {}
    }
    if field == LABELS {
        push_faults(errors, &path.child("key"), key, names::qualified_name(key));
        for (index, value) in values.into_iter().enumerate() {
            push_faults(errors, &at.index(index), value, names::label_value(value));
        }
    } else if key.is_empty() {
        errors.push(FieldError::required(&path.child("key"), "must be specified"));
    }
}

/// Returns the `evaluationError` of selectors that the server does not understand.
pub(super) fn evaluation_error(attributes: &Value) -> Option<String> {
    let faults: Vec<String> = [FIELDS, LABELS]
        .into_iter()
        .filter_map(|field| {
            let extent = ignored_extent(child(attributes, field), field)?;
            Some(format!(
                "spec.resourceAttributes.{field} {extent} due to parse error"
            ))
        })
        .collect();
    (!faults.is_empty()).then(|| faults.join("; "))
}

fn ignored_extent(selector: &Value, field: &str) -> Option<&'static str> {
    let raw = text(selector, RAW);
    if !raw.is_empty() {
        let is_understood = if field == FIELDS {
            FieldSelector::is_well_formed(raw)
        } else {
            LabelSelector::parse(raw).is_ok()
        };
        return (!is_understood).then_some("ignored");
    }
    let requirements = items(selector, REQUIREMENTS);
    let understood = requirements
        .iter()
        .filter(|requirement| is_understood(requirement, field))
        .count();
    match understood {
        _ if understood == requirements.len() => None,
        0 => Some("ignored"),
        _ => Some("partially ignored"),
    }
}

/// Returns true if a requirement can be evaluated. Those of fields compare one value.
fn is_understood(requirement: &Value, field: &str) -> bool {
    match text(requirement, "operator") {
        "In" | "NotIn" => field == LABELS || items(requirement, "values").len() == 1,
        "Exists" | "DoesNotExist" => field == LABELS,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
