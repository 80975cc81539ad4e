//! Errors of requests, as clients receive them: a `Status` with code, reason and details.
//!
//! Reasons and messages are those of Kubernetes, because client libraries compare them.

mod conversion;

use std::fmt::Write as _;

use api::field::FieldErrors;
use api::kind::Kind;
use http::StatusCode;
use serde_json::{Map, Value, json};
use store::Revision;

/// Errors of fields that a failure names. Each takes a kilobyte in message and causes, and an object may have 100,000 invalid
/// fields.
const ERRORS_NAMED_MAX: usize = 1_000;

/// Error response of a request. The HTTP status code states if a retry can succeed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    code: StatusCode,
    reason: &'static str,
    message: String,
    /// Boxed to keep results small.
    details: Box<Map<String, Value>>,
    /// Continue token for the rest of an inconsistent list.
    continue_token: Option<String>,
    /// Texts of `Warning` headers from before the failure.
    warnings: Vec<String>,
}

impl Failure {
    /// Creates an error without details. An empty `reason` is omitted from the response.
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

    /// 400: the request is invalid, independent of the state of the cluster.
    pub fn bad_request(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 401: authentication failed.
    pub fn unauthorized() -> Failure {
        Failure::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// 403: the request for an object is forbidden for the given reason.
    pub fn forbidden(kind: &Kind, name: &str, reason: &str) -> Failure {
        let qualified = kind.qualified_plural();
        let message = format!("{qualified} \"{name}\" is forbidden: {reason}");
        Failure::new(StatusCode::FORBIDDEN, "Forbidden", message).with_resource(kind, name)
    }

    /// 403: the request for a resource, or for a path if `resource` is "", is forbidden for the given reason.
    pub(crate) fn forbidden_for(group: &str, resource: &str, name: &str, reason: &str) -> Failure {
        let dot = if group.is_empty() { "" } else { "." };
        let message = match (resource, name) {
            ("", _) => format!("forbidden: {reason}"),
            (resource, "") => format!("{resource}{dot}{group} is forbidden: {reason}"),
            (resource, name) => format!("{resource}{dot}{group} {name:?} is forbidden: {reason}"),
        };
        Failure::new(StatusCode::FORBIDDEN, "Forbidden", message).with_object(group, resource, name)
    }

    /// 404: the object does not exist.
    pub fn not_found(kind: &Kind, name: &str) -> Failure {
        let message = format!("{} \"{name}\" not found", kind.qualified_plural());
        Failure::new(StatusCode::NOT_FOUND, "NotFound", message).with_resource(kind, name)
    }

    /// 404: the path is not served.
    pub fn no_such_path() -> Failure {
        Failure::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    /// 405: the path does not support the method.
    pub fn method_not_allowed() -> Failure {
        let message = "the server does not allow this method on the requested resource";
        Failure::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// 406: the client accepts no media type that is served.
    pub fn not_acceptable() -> Failure {
        let message = "only the following media types are accepted: application/json, application/yaml, \
                       application/vnd.kubernetes.protobuf";
        Failure::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 406: the Accept header names no media type that is served.
    pub(crate) fn no_representation() -> Failure {
        let message = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                       application/vnd.kubernetes.protobuf";
        Failure::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 406: the Accept header does not allow JSON, the only form of the path.
    pub(crate) fn json_only() -> Failure {
        let message = "406: Not Acceptable\n\nAvailable representations: application/json";
        Failure::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 406: metadata of one object is requested for a list, or the reverse.
    pub(crate) fn not_acceptable_metadata(message: String) -> Failure {
        Failure::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 406: the client accepts no media type that is served for watches.
    pub fn not_acceptable_stream() -> Failure {
        let message = "only the following media types are accepted: application/json;stream=watch, \
                       application/vnd.kubernetes.protobuf;stream=watch";
        Failure::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 409: the name of a new object is in use.
    pub fn already_exists(kind: &Kind, name: &str) -> Failure {
        let message = format!("{} \"{name}\" already exists", kind.qualified_plural());
        Failure::new(StatusCode::CONFLICT, "AlreadyExists", message).with_resource(kind, name)
    }

    /// 409: the request does not match the stored object; reading it again helps.
    pub fn conflict(kind: &Kind, name: &str, reason: &str) -> Failure {
        let qualified = kind.qualified_plural();
        let message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {reason}");
        Failure::new(StatusCode::CONFLICT, "Conflict", message).with_resource(kind, name)
    }

    /// 409: the object has changed since the client read it.
    pub fn modified(kind: &Kind, name: &str) -> Failure {
        let reason =
            "the object has been modified; please apply your changes to the latest version and try again";
        Failure::conflict(kind, name, reason)
    }

    /// 409: a precondition of a delete failed. The details contain the kind, not the resource.
    pub fn precondition(kind: &Kind, name: &str, reason: &str) -> Failure {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {reason}",
            kind.kind
        );
        Failure::new(StatusCode::CONFLICT, "Conflict", message).with_object(kind.group, kind.kind, name)
    }

    /// 410: the requested revision was compacted; the client has to list again.
    pub fn expired(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::GONE, "Expired", message)
    }

    /// 410: the revision of a paged list was compacted. With the token, the client receives the rest at the current
    /// revision.
    pub fn late_for_page(continue_token: String) -> Failure {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start a \
                       new list without the continue parameter, or use the continue token in this response to retrieve \
                       the remainder of the results. Continuing with the provided token results in an inconsistent list \
                       - objects that were created, modified, or deleted between the time the first chunk was returned \
                       and now may show up in the list.";
        Failure {
            continue_token: Some(continue_token),
            ..Failure::expired(message)
        }
    }

    /// 413: a body or an object is larger than `limit_bytes`.
    pub fn too_large(limit_bytes: usize) -> Failure {
        let message = format!("Request entity too large: limit is {limit_bytes}");
        Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// 415: the media type of the body is not supported.
    pub fn unsupported_media_type(message: impl Into<String>) -> Failure {
        Failure::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            message,
        )
    }

    /// 422: the object violates validation rules.
    pub fn invalid(kind: &Kind, name: &str, errors: &FieldErrors) -> Failure {
        Failure::invalid_options(kind.group, kind.kind, name, errors)
    }

    /// 422 for types without a row in the kind table, such as `CreateOptions`.
    pub fn invalid_options(group: &str, kind: &str, name: &str, errors: &FieldErrors) -> Failure {
        let qualified = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
        let mut message = format!("{qualified} \"{name}\" is invalid: ");
        let named = errors.get(..ERRORS_NAMED_MAX).unwrap_or(errors);
        match named {
            [one] => {
                // Writing to a String cannot fail.
                write!(message, "{one}").ok();
            }
            all => {
                let mut texts: Vec<String> = all.iter().map(ToString::to_string).collect();
                let further = errors.len() - all.len();
                if further > 0 {
                    texts.push(format!("and {further} further errors"));
                }
                write!(message, "[{}]", texts.join(", ")).ok();
            }
        }
        let causes: Vec<Value> = named
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
            .with_object(group, kind, name)
            .with_causes(causes)
    }

    /// 422: the result of a patch is not an object of the kind, or violates strict validation. As upstream, the failure
    /// names no kind.
    pub(crate) fn invalid_patch(shown: &str, detail: String) -> Failure {
        let error = api::field::FieldError::invalid(&api::field::Path::new("patch"), shown, detail);
        Failure::invalid_options("", "", "", &vec![error])
    }

    /// 422: a patch cannot be applied to the stored object.
    pub fn unprocessable(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
    }

    /// 429: a limit is exceeded; a retry after one second may succeed.
    pub(crate) fn too_many_requests() -> Failure {
        Failure::busy("too many requests at a time, please try again later")
    }

    /// 429 with a message; a retry after one second may succeed.
    pub(crate) fn busy(message: impl Into<String>) -> Failure {
        let mut failure = Failure::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        failure.details.insert("retryAfterSeconds".into(), 1.into());
        failure
    }

    /// 500: an internal error. The message is sent to the client; confidential details belong in the log.
    pub fn internal(message: impl Into<String>) -> Failure {
        let detail = message.into();
        Failure::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            format!("Internal error occurred: {detail}"),
        )
        .with_causes(vec![json!({ "message": detail })])
    }

    /// 500: a new object has a `resourceVersion`. As upstream, the failure has no reason.
    pub(crate) fn version_on_create() -> Failure {
        let message = "resourceVersion should not be set on objects to be created";
        Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// 503: the server is temporarily unable to serve the request; a retry may succeed.
    pub fn unavailable(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
    }

    /// 504: the requested revision does not exist yet.
    pub fn version_too_large(requested: Revision, current: Revision) -> Failure {
        let message = format!("Too large resource version: {requested}, current: {current}");
        let cause = json!({ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" });
        let mut failure =
            Failure::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message).with_causes(vec![cause]);
        failure.details.insert("retryAfterSeconds".into(), 1.into());
        failure
    }

    /// Returns the HTTP status code.
    pub fn code(&self) -> StatusCode {
        self.code
    }

    /// Returns the machine-readable reason.
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// Returns the human-readable message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns true for conflicts, which a retry with the current object may resolve.
    pub fn is_conflict(&self) -> bool {
        self.reason == "Conflict"
    }

    /// Returns the texts of `Warning` headers, in order.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Inserts earlier warnings before the existing ones.
    pub fn warned(mut self, warnings: Vec<String>) -> Failure {
        self.warnings.splice(0..0, warnings);
        self
    }

    /// Returns true if the requested revision was compacted.
    pub fn is_expired(&self) -> bool {
        self.reason == "Expired"
    }

    /// Sets `details.causes`.
    pub fn with_causes(mut self, causes: Vec<Value>) -> Failure {
        self.details.insert("causes".into(), causes.into());
        self
    }

    /// Returns the `Status` object.
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

    fn with_resource(self, kind: &Kind, name: &str) -> Failure {
        self.with_object(kind.group, kind.plural, name)
    }

    fn with_object(mut self, group: &str, kind: &str, name: &str) -> Failure {
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
