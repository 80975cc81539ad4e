//! SelfSubjectAccessReview, SubjectAccessReview and LocalSubjectAccessReview.

use api::field::{FieldError, FieldErrors, Path};
use api::kind::Kind;
use api::rbac::Action;
use api::tree::{child, is_set, set, text, texts};
use serde_json::{Map, Value};

pub(crate) use super::rules_review::review_rules;
use super::{Attributes, AuthorizationDecision, Authorizer};
use crate::access::authentication::Identity;
use crate::failure::Failure;
use crate::request::route::Target;

/// Completes a SelfSubjectAccessReview.
pub(crate) fn review_own_access(
    mut review: Value,
    kind: &Kind,
    authorizer: &Authorizer,
    requester: &Identity,
) -> Result<Value, Failure> {
    let spec = child(&review, "spec");
    check_valid(kind, validate(spec))?;
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
    if target.kind.namespaced {
        validate_local(&mut errors, spec, target.namespace());
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

fn validate_local(errors: &mut FieldErrors, spec: &Value, namespace: &str) {
    let path = Path::new("spec").child("resourceAttributes").child("namespace");
    let requested = text(child(spec, "resourceAttributes"), "namespace");
    if requested != namespace {
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
        Err(Failure::invalid(kind, "", &errors))
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
    Value::Object(status)
}
