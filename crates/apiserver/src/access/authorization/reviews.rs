//! The questions whether somebody may do something: SelfSubjectAccessReview, SubjectAccessReview and
//! LocalSubjectAccessReview.

use api::field::{FieldError, FieldErrors, Path};
use api::kind::Kind;
use api::rbac::Action;
use api::tree::{child, is_set, set, text, texts};
use serde_json::{Map, Value};

pub(crate) use super::rules_review::review_rules;
use super::{Attributes, Authorizer, Verdict};
use crate::access::authentication::Identity;
use crate::failure::Failure;
use crate::request::route::Target;

/// Answers a SelfSubjectAccessReview.
pub(crate) fn review_own_access(
    mut review: Value,
    kind: &Kind,
    authorizer: &Authorizer,
    requester: &Identity,
) -> Result<Value, Failure> {
    let spec = child(&review, "spec");
    refuse(kind, validate(spec))?;
    let status = answer(spec, requester, authorizer);
    set(&mut review, "status", status);
    Ok(review)
}

/// Answers a SubjectAccessReview, or, if the kind is namespaced, a LocalSubjectAccessReview.
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
    refuse(target.kind, errors)?;
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
        signed: None,
    };
    let status = answer(spec, &user, authorizer);
    set(&mut review, "status", status);
    Ok(review)
}

/// What is asked about is either resources or a path.
fn validate(spec: &Value) -> FieldErrors {
    let (of_resource, of_path) = (
        is_set(spec, "resourceAttributes"),
        is_set(spec, "nonResourceAttributes"),
    );
    let path = Path::new("spec");
    match (of_resource, of_path) {
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
    let asked = text(child(spec, "resourceAttributes"), "namespace");
    if asked != namespace {
        errors.push(FieldError::invalid(&path, asked, "must match metadata.namespace"));
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

fn refuse(kind: &Kind, errors: FieldErrors) -> Result<(), Failure> {
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Failure::invalid(kind, "", &errors)),
    }
}

fn answer(spec: &Value, user: &Identity, authorizer: &Authorizer) -> Value {
    let wanted = child(spec, "resourceAttributes");
    let (action, namespace) = if wanted.is_null() {
        let wanted = child(spec, "nonResourceAttributes");
        let action = Action::Path {
            verb: text(wanted, "verb"),
            path: text(wanted, "path"),
        };
        (action, "")
    } else {
        let action = Action::Resource {
            verb: text(wanted, "verb"),
            group: text(wanted, "group"),
            resource: text(wanted, "resource"),
            subresource: text(wanted, "subresource"),
            name: text(wanted, "name"),
        };
        (action, text(wanted, "namespace"))
    };
    let mut status = Map::new();
    match authorizer.decide(&Attributes::new(user, namespace, action)) {
        Verdict::Allowed(why) => {
            status.insert("allowed".to_owned(), true.into());
            if !why.is_empty() {
                status.insert("reason".to_owned(), (*why).into());
            }
        }
        Verdict::Refused(why) => {
            status.insert("allowed".to_owned(), false.into());
            if !why.is_empty() {
                status.insert("reason".to_owned(), why.into());
            }
        }
    }
    Value::Object(status)
}
