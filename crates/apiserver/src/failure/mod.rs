//! What goes wrong with a request, as clients see it: a `Status` with code, reason and details.
//!
//! The words are those of Kubernetes, since client libraries decide by them what to do next.

use std::fmt::Write as _;

use api::decode::DecodeError;
use api::field::FieldErrors;
use api::kind::Kind;
use http::StatusCode;
use serde_json::{Map, Value, json};
use store::{CommitError, Revision, StoreError};

use crate::registry::service;

/// What a client is told whose list or watch is older than the history.
const TOO_OLD: &str = "The provided resource version is too old to display a consistent list.";

/// A request that cannot be carried out. Whether repeating helps is told by the code, as in HTTP.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    code: StatusCode,
    reason: &'static str,
    message: String,
    /// In a box, so that results that carry a failure stay small.
    details: Box<Map<String, Value>>,
    /// The token by which a list can go on nevertheless.
    continue_token: Option<String>,
    /// Texts for `Warning` headers: what there was to say of the request before it failed.
    warnings: Vec<String>,
}

impl Failure {
    /// A failure without details. An empty `reason` is left out.
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Failure {
        Failure {
            code,
            reason,
            message: message.into(),
            details: Box::default(),
            continue_token: None,
            warnings: Vec::new(),
        }
    }

    /// 400: the request makes no sense, whatever the state of the cluster.
    pub fn bad_request(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 401: nobody we know.
    pub fn unauthorized() -> Failure {
        Failure::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// 403: `why` says what stands against it.
    pub fn forbidden(kind: &Kind, name: &str, why: &str) -> Failure {
        let qualified = kind.qualified_plural();
        let message = format!("{qualified} \"{name}\" is forbidden: {why}");
        Failure::new(StatusCode::FORBIDDEN, "Forbidden", message).about_resource(kind, name)
    }

    /// 403: somebody may not do this with a resource, or with a path if `resource` is "".
    pub(crate) fn forbidden_for(group: &str, resource: &str, name: &str, why: &str) -> Failure {
        let dot = if group.is_empty() { "" } else { "." };
        let message = match (resource, name) {
            ("", _) => format!("forbidden: {why}"),
            (resource, "") => format!("{resource}{dot}{group} is forbidden: {why}"),
            (resource, name) => format!("{resource}{dot}{group} {name:?} is forbidden: {why}"),
        };
        Failure::new(StatusCode::FORBIDDEN, "Forbidden", message).about(group, resource, name)
    }

    /// 404: there is no such object.
    pub fn not_found(kind: &Kind, name: &str) -> Failure {
        let message = format!("{} \"{name}\" not found", kind.qualified_plural());
        Failure::new(StatusCode::NOT_FOUND, "NotFound", message).about_resource(kind, name)
    }

    /// 404: there is nothing at this path.
    pub fn no_such_path() -> Failure {
        Failure::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    /// 405: the path does not take this verb.
    pub fn method_not_allowed() -> Failure {
        let message = "the server does not allow this method on the requested resource";
        Failure::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// 406: none of the media types that the client accepts is served.
    pub fn not_acceptable() -> Failure {
        let message = "only the following media types are accepted: application/json, application/yaml, \
                       application/vnd.kubernetes.protobuf";
        Failure::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 406: the same for a watch.
    pub fn not_acceptable_stream() -> Failure {
        let message = "only the following media types are accepted: application/json;stream=watch, \
                       application/vnd.kubernetes.protobuf;stream=watch";
        Failure::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 409: a create of a name that is taken.
    pub fn already_exists(kind: &Kind, name: &str) -> Failure {
        let message = format!("{} \"{name}\" already exists", kind.qualified_plural());
        Failure::new(StatusCode::CONFLICT, "AlreadyExists", message).about_resource(kind, name)
    }

    /// 409: the object is not what the client takes it for; reading it again helps.
    pub fn conflict(kind: &Kind, name: &str, why: &str) -> Failure {
        let qualified = kind.qualified_plural();
        let message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {why}");
        Failure::new(StatusCode::CONFLICT, "Conflict", message).about_resource(kind, name)
    }

    /// 409: the object has changed since the client read it.
    pub fn modified(kind: &Kind, name: &str) -> Failure {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Failure::conflict(kind, name, why)
    }

    /// 409 of a delete whose preconditions do not hold; its details name the kind, not the resource.
    pub fn precondition(kind: &Kind, name: &str, why: &str) -> Failure {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.kind);
        Failure::new(StatusCode::CONFLICT, "Conflict", message).about(kind.group, kind.kind, name)
    }

    /// 410: what the client refers to is no longer in the history; it has to list again.
    pub fn expired(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::GONE, "Expired", message)
    }

    /// 410 for a page of a list whose revision is gone; with the token, the client gets the rest as it is now.
    pub fn late_for_page(continue_token: String) -> Failure {
        let message = "The provided continue parameter is too old to display a consistent list result. Start a new list \
                       without it, or go on with the one in this answer: then the list shows what is there now, not \
                       what was there when it began.";
        Failure {
            continue_token: Some(continue_token),
            ..Failure::expired(message)
        }
    }

    /// 413: the body is larger than `limit_bytes`.
    pub fn too_large(limit_bytes: usize) -> Failure {
        let message = format!("Request entity too large: limit is {limit_bytes}");
        Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// 413 for a body with too many values, 400 for one that is not an object of its kind.
    pub fn of_decode(error: &DecodeError) -> Failure {
        let message = error.to_string();
        match error {
            DecodeError::TooManyValues => {
                Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
            }
            _ => Failure::bad_request(message),
        }
    }

    /// 415: the body's media type is not read here.
    pub fn unsupported_media_type(message: impl Into<String>) -> Failure {
        Failure::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            message,
        )
    }

    /// 422: an object of `kind` that breaks rules.
    pub fn invalid(kind: &Kind, name: &str, errors: &FieldErrors) -> Failure {
        Failure::invalid_options(kind.group, kind.kind, name, errors)
    }

    /// 422 for what has no kind of its own in the table, such as `CreateOptions`.
    pub fn invalid_options(group: &str, kind: &str, name: &str, errors: &FieldErrors) -> Failure {
        let qualified = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
        let mut message = format!("{qualified} \"{name}\" is invalid: ");
        match errors.as_slice() {
            [one] => {
                // Writing to a String cannot fail; the result says nothing.
                write!(message, "{one}").ok();
            }
            all => {
                let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
                write!(message, "[{}]", texts.join(", ")).ok();
            }
        }
        let causes: Vec<Value> = errors
            .iter()
            .map(|error| {
                json!({
                    "reason": error.reason.as_str(),
                    "message": error.message,
                    "field": error.path.as_str(),
                })
            })
            .collect();
        Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
            .about(group, kind, name)
            .with_causes(causes)
    }

    /// 422 for a patch that cannot be applied to the object as it is.
    pub fn unprocessable(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
    }

    /// 429: more than can be taken now; trying again later helps.
    pub(crate) fn too_many_requests() -> Failure {
        let message = "too many requests at a time, please try again later";
        let mut failure = Failure::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        failure.details.insert("retryAfterSeconds".into(), 1.into());
        failure
    }

    /// 500: our fault. The message is shown to the client; what it must not see belongs in the log.
    pub fn internal(message: impl Into<String>) -> Failure {
        let detail = message.into();
        Failure::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            format!("Internal error occurred: {detail}"),
        )
        .with_causes(vec![json!({ "message": detail })])
    }

    /// 503: not now; trying again later helps.
    pub fn unavailable(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
    }

    /// 504: the client asked for a revision that does not exist yet.
    pub fn version_too_large(asked: Revision, current: Revision) -> Failure {
        let message = format!("Too large resource version: {asked}, current: {current}");
        let cause = json!({ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" });
        let mut failure =
            Failure::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message).with_causes(vec![cause]);
        failure.details.insert("retryAfterSeconds".into(), 1.into());
        failure
    }

    /// What a read of the store failed with.
    pub fn of_read(error: &StoreError) -> Failure {
        match error {
            StoreError::Compacted { .. } => Failure::expired(TOO_OLD),
            StoreError::Future { asked, current } => Failure::version_too_large(*asked, *current),
            other => Failure::of_store(other),
        }
    }

    /// What a write failed with that was no conflict.
    pub fn of_commit(error: &CommitError) -> Failure {
        match error {
            CommitError::Store(error) => Failure::of_store(error),
            CommitError::Conflict { .. } | CommitError::Malformed { .. } => {
                tracing::error!(%error, "a transaction could not be carried out");
                Failure::internal("the change could not be written")
            }
        }
    }

    /// What the Service registry refused.
    pub(crate) fn of_allocation(failure: service::Failure, kind: &Kind, name: &str) -> Failure {
        match failure {
            service::Failure::Invalid(errors) => Failure::invalid(kind, name, &errors),
            service::Failure::Internal(message) => Failure::internal(message),
            service::Failure::Unclassified(message) => {
                Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
            }
        }
    }

    /// The engine says in the log when it begins and ceases to fail; a line for each request would bury that.
    fn of_store(error: &StoreError) -> Failure {
        tracing::debug!(%error, "the store could not serve a request");
        let mut failure = Failure::unavailable("the store cannot be used now, please try again later");
        failure.details.insert("retryAfterSeconds".into(), 1.into());
        failure
    }

    /// The HTTP status.
    pub fn code(&self) -> StatusCode {
        self.code
    }

    /// The word that clients decide by.
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// The text for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the conflict of a patch or an update may go away by trying again with what is stored now.
    pub fn is_conflict(&self) -> bool {
        self.reason == "Conflict"
    }

    /// Texts for `Warning` headers, in their order.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Adds what was said of the request before anything that is said already.
    pub fn warned(mut self, warnings: Vec<String>) -> Failure {
        self.warnings.splice(0..0, warnings);
        self
    }

    /// Whether what the client refers to is no longer in the history.
    pub fn is_expired(&self) -> bool {
        self.reason == "Expired"
    }

    /// Adds causes to the details.
    pub fn with_causes(mut self, causes: Vec<Value>) -> Failure {
        self.details.insert("causes".into(), causes.into());
        self
    }

    /// The `Status` object.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        });
        if let Some(token) = &self.continue_token {
            status["metadata"]["continue"] = token.as_str().into();
        }
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if !self.details.is_empty()
            || matches!(
                self.code,
                StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::FORBIDDEN
            )
        {
            status["details"] = Value::Object((*self.details).clone());
        }
        status["code"] = self.code.as_u16().into();
        status
    }

    fn about_resource(self, kind: &Kind, name: &str) -> Failure {
        self.about(kind.group, kind.plural, name)
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Failure {
        for (field, value) in [("name", name), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                self.details.insert(field.into(), value.into());
            }
        }
        self
    }
}

#[cfg(test)]
mod tests;
