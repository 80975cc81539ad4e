//! SelfSubjectAccessReview, SubjectAccessReview and LocalSubjectAccessReview.

use api::field::{FieldError, FieldErrors, Path};
use api::kind::Kind;
use api::rbac::Action;
use api::tree::{child, is_set, omit_null, omit_zero, set, text, texts};
use serde_json::{Map, Value};

pub(crate) use super::rules_review::review_rules;
use super::{Attributes, AuthorizationDecision, Authorizer, review_selectors};
use crate::access::authentication::Identity;
use crate::failure::Failure;
use crate::request::route::Target;

/// Fields of resource attributes that are absent if they are empty.
const ATTRIBUTES: [&str; 7] = [
    "namespace",
    "verb",
    "group",
    "version",
    "resource",
    "subresource",
    "name",
];

/// Completes a SelfSubjectAccessReview.
pub(crate) fn review_own_access(
    mut review: Value,
    kind: &Kind,
    authorizer: &Authorizer,
    requester: &Identity,
) -> Result<Value, Failure> {
    omit_empty(&mut review);
    let spec = child(&review, "spec");
    let mut errors = validate(spec);
    review_selectors::validate(&mut errors, child(spec, "resourceAttributes"));
    validate_metadata(&mut errors, &review, "must be empty");
    check_valid(kind, errors)?;
    let status = status_of(spec, requester, authorizer);
    set(&mut review, "status", status);
    Ok(review)
}

/// Completes a SubjectAccessReview, or a LocalSubjectAccessReview if the kind is namespaced.
pub(crate) fn review_access(
    mut review: Value,
    target: &Target,
    authorizer: &Authorizer,
) -> Result<Value, Failure> {
    omit_empty(&mut review);
    let spec = child(&review, "spec");
    let mut errors = validate(spec);
    if text(spec, "user").is_empty() && texts(spec, "groups").is_empty() {
        let path = Path::new("spec").child("user");
        errors.push(FieldError::invalid(
            &path,
            "",
            "at least one of user or group must be specified",
        ));
    }
    review_selectors::validate(&mut errors, child(spec, "resourceAttributes"));
    if target.kind.namespaced {
        validate_metadata(&mut errors, &review, "must be empty except for namespace");
        validate_local(&mut errors, spec, target.namespace());
    } else {
        validate_metadata(&mut errors, &review, "must be empty");
    }
    check_valid(target.kind, errors)?;
    let extra = child(spec, "extra").as_object().into_iter().flatten();
    let user = Identity {
        user: text(spec, "user").to_owned(),
        uid: text(spec, "uid").to_owned(),
        groups: texts(spec, "groups").into_iter().map(str::to_owned).collect(),
        extra: extra
            .map(|(key, values)| {
                let values = values.as_array().into_iter().flatten();
                let values = values.filter_map(Value::as_str).map(str::to_owned);
                (key.clone(), values.collect())
            })
            .collect(),
        certificate: None,
    };
    let status = status_of(spec, &user, authorizer);
    set(&mut review, "status", status);
    Ok(review)
}

/// Validates that exactly one of resource and non-resource attributes is set.
fn validate(spec: &Value) -> FieldErrors {
    let (has_resource, has_path) = (
        is_set(spec, "resourceAttributes"),
        is_set(spec, "nonResourceAttributes"),
    );
    let path = Path::new("spec");
    match (has_resource, has_path) {
        (true, true) => {
            let detail = "cannot be specified in combination with resourceAttributes";
            let value = child(spec, "nonResourceAttributes").clone();
            vec![FieldError::invalid(
                &path.child("nonResourceAttributes"),
                value,
                detail,
            )]
        }
        (false, false) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            let path = path.child("resourceAttributes");
            vec![FieldError::invalid(&path, Value::Null, detail)]
        }
        _ => Vec::new(),
    }
}

/// Drops the empty fields of a review.
fn omit_empty(review: &mut Value) {
    let Some(spec) = review.get_mut("spec") else {
        return;
    };
    omit_zero(spec, &["user", "groups", "uid", "extra"]);
    omit_null(spec, &["resourceAttributes", "nonResourceAttributes"]);
    if let Some(attributes) = spec.get_mut("resourceAttributes") {
        omit_zero(attributes, &ATTRIBUTES);
        omit_null(attributes, &["fieldSelector", "labelSelector"]);
    }
    if let Some(attributes) = spec.get_mut("nonResourceAttributes") {
        omit_zero(attributes, &["path", "verb"]);
    }
}

/// Checks that the metadata has at most the namespace, which is that of the request, and managed fields.
fn validate_metadata(errors: &mut FieldErrors, review: &Value, fault: &str) {
    let metadata = child(review, "metadata");
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    let fields = metadata.as_object().into_iter().flatten();
    let mut others = fields.filter(|(field, _)| !matches!(field.as_str(), "namespace" | "managedFields"));
    if !others.all(|(_, value)| is_empty(value)) {
        errors.push(FieldError::invalid(
            &Path::new("metadata"),
            metadata.clone(),
            fault,
        ));
    }
}

fn validate_local(errors: &mut FieldErrors, spec: &Value, namespace: &str) {
    let path = Path::new("spec").child("resourceAttributes").child("namespace");
    let requested = text(child(spec, "resourceAttributes"), "namespace");
    if is_set(spec, "resourceAttributes") && requested != namespace {
        errors.push(FieldError::invalid(
            &path,
            requested,
            "must match metadata.namespace",
        ));
    }
    if is_set(spec, "nonResourceAttributes") {
        let path = Path::new("spec").child("nonResourceAttributes");
        let value = child(spec, "nonResourceAttributes").clone();
        errors.push(FieldError::invalid(
            &path,
            value,
            "disallowed on this kind of request",
        ));
    }
}

fn check_valid(kind: &Kind, errors: FieldErrors) -> Result<(), Failure> {
    if errors.is_empty() {
        Ok(())
    } else {
        // As upstream, the failure names no kind.
        Err(Failure::invalid_options(kind.group, "", "", &errors))
    }
}

fn status_of(spec: &Value, user: &Identity, authorizer: &Authorizer) -> Value {
    let attributes = child(spec, "resourceAttributes");
    let (action, namespace) = if attributes.is_null() {
        let attributes = child(spec, "nonResourceAttributes");
        let action = Action::Path {
            verb: text(attributes, "verb"),
            path: text(attributes, "path"),
        };
        (action, "")
    } else {
        let action = Action::Resource {
            verb: text(attributes, "verb"),
            group: text(attributes, "group"),
            resource: text(attributes, "resource"),
            subresource: text(attributes, "subresource"),
            name: text(attributes, "name"),
        };
        (action, text(attributes, "namespace"))
    };
    let mut status = Map::new();
    match authorizer.decide(&Attributes::new(user, namespace, action)) {
        AuthorizationDecision::Allowed(reason) => {
            status.insert("allowed".to_owned(), true.into());
            if !reason.is_empty() {
                status.insert("reason".to_owned(), (*reason).into());
            }
        }
        AuthorizationDecision::Denied(reason) => {
            status.insert("allowed".to_owned(), false.into());
            if !reason.is_empty() {
                status.insert("reason".to_owned(), reason.into());
            }
        }
    }
    if let Some(error) = review_selectors::evaluation_error(attributes) {
        status.insert("evaluationError".to_owned(), error.into());
    }
    Value::Object(status)
}
