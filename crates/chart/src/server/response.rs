//! Responses, with the headers that each of them has.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    RETRY_AFTER, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde::Serialize;
use serde_json::json;

/// Body of a response.
pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The page loads its own files only, and no other page embeds it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Headers of all responses.
const HEADERS: [(HeaderName, &str); 8] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-embedder-policy"),
        "require-corp",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
];

/// A request that is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Status code.
    pub status: StatusCode,
    /// Human-readable reason.
    pub message: String,
}

impl Refusal {
    /// Returns a refusal with a reason.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    /// Refuses a request without a valid session.
    pub fn no_session() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "the request has no session: log in")
    }

    /// Refuses a request while the caches are incomplete.
    pub fn not_ready() -> Self {
        let message = "the objects of the cluster are being read: retry in a second";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// Refuses a request beyond a limit.
    pub fn too_many(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, message)
    }

    /// Returns the response.
    pub fn into_response(self) -> Response<Body> {
        let mut response = json_of(self.status, &json!({"message": self.message}));
        let is_temporary = matches!(
            self.status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        );
        if is_temporary {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// Returns a response with a body.
pub(super) fn of(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    with_body(status, content_type, Full::new(body.into()).boxed_unsync())
}

/// Returns a response with a body that may be a stream. Nothing keeps a copy of it.
pub(super) fn with_body(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns a response without a body.
pub(super) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = of(status, "application/json", Bytes::new());
    response.headers_mut().remove(CONTENT_TYPE);
    response
}

/// Returns a JSON response.
pub(super) fn json_of(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec(value) {
        Ok(body) => of(status, "application/json", body),
        Err(error) => {
            tracing::error!(%error, "response of the chart not encoded");
            empty(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

/// Returns a value as JSON.
///
/// # Errors
///
/// A [`Refusal`] if the value has no form in JSON.
pub(super) fn encoded(value: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    serde_json::to_vec(value).map_err(|error| {
        tracing::error!(%error, "response of the chart not encoded");
        let message = "the response cannot be encoded: see the log of the chart";
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    })
}

/// Returns the response for a method that a path does not have.
pub(super) fn method_not_allowed(allowed: &'static str) -> Response<Body> {
    let message = format!("the path has the methods {allowed}");
    let mut response = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, message).into_response();
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Adds the headers of all responses.
pub(super) fn secured(mut response: Response<Body>) -> Response<Body> {
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}
