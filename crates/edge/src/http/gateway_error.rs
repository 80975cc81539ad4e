//! Reasons why a request has no response of a backend, and the responses of the edge to their clients. The log of the
//! process has the details.

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};

use super::access_record::AccessRecord;
use super::rejection::RequestRejection;
use super::response_body::ResponseBody;
use super::wire_body::WireError;
use crate::outbound::ConnectError;
use crate::refusal::ConnectionRefusal;

/// Reason why no backend responds.
#[derive(Debug, thiserror::Error)]
pub(super) enum GatewayError {
    /// The request is rejected.
    #[error(transparent)]
    Rejected(#[from] RequestRejection),
    /// The client, the Service or the process has too many requests under way. A later attempt may succeed.
    #[error("too many requests under way; bound: {}", .0.reason())]
    Refused(ConnectionRefusal),
    /// No route matches host and path.
    #[error("no route for host and path")]
    NoRoute,
    /// The host belongs to another owner than the server name of the TLS connection.
    #[error("host of another owner than the server name of the connection")]
    Misdirected,
    /// No backend is available. A later attempt may succeed.
    #[error("no backend available")]
    NoBackend,
    /// None of the tried backends accepts connections. A later attempt may succeed.
    #[error("no backend reached; last error: {0}")]
    Unreachable(#[source] ConnectError),
    /// The backend failed. It may or may not have processed the request.
    #[error("backend failed: {0}")]
    Broken(#[source] WireError),
    /// The backend switches to a protocol that the client did not request.
    #[error("backend switched to a protocol that was not requested")]
    UnexpectedUpgrade,
    /// The backend did not respond in time.
    #[error("no response of the backend in time")]
    Timeout,
    /// The backend was removed before it responded.
    #[error("backend removed before it responded")]
    BackendRemoved,
}

impl GatewayError {
    fn status(&self) -> StatusCode {
        match self {
            Self::Rejected(rejection) => rejection.status(),
            Self::NoRoute => StatusCode::NOT_FOUND,
            Self::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            Self::NoBackend | Self::Refused(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unreachable(_) | Self::Broken(_) | Self::UnexpectedUpgrade | Self::BackendRemoved => {
                StatusCode::BAD_GATEWAY
            }
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    fn outcome(&self) -> &'static str {
        match self {
            Self::Rejected(RequestRejection::Slow) => "client too slow",
            Self::Rejected(_) | Self::Refused(_) => "refused",
            Self::NoRoute => "no route",
            Self::Misdirected => "misdirected",
            Self::NoBackend => "no backend",
            Self::Unreachable(_) | Self::Broken(_) | Self::UnexpectedUpgrade => "backend failed",
            Self::Timeout => "timeout",
            Self::BackendRemoved => "backend left",
        }
    }

    /// Returns the text for the client, which discloses nothing about backends.
    fn text(&self) -> String {
        match self {
            Self::Rejected(rejection) => format!("{rejection}\n"),
            Self::Refused(_) => "too many requests at once\n".to_owned(),
            Self::NoRoute => "no route for this host and path\n".to_owned(),
            Self::Misdirected => "the host needs a connection of its own\n".to_owned(),
            Self::NoBackend => "no backend is available\n".to_owned(),
            Self::Unreachable(_) | Self::Broken(_) | Self::UnexpectedUpgrade | Self::BackendRemoved => {
                "the backend failed\n".to_owned()
            }
            Self::Timeout => "the backend did not respond in time\n".to_owned(),
        }
    }

    /// Returns the response for the client. `is_http1` states that a response can announce the end of the
    /// connection after a rejected request.
    pub(super) fn into_response(self, mut record: AccessRecord, is_http1: bool) -> Response<ResponseBody> {
        record.set_outcome(self.outcome());
        let mut response = text_response(self.status(), self.text(), record);
        if is_http1 && matches!(self, Self::Rejected(_)) {
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if matches!(self, Self::Rejected(RequestRejection::Method(_))) {
            // An empty list leaves open which methods the server has (RFC 9110, section 15.5.6).
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(""));
        }
        response
    }
}

/// Returns a response of the edge itself.
pub(super) fn text_response(
    status: StatusCode,
    text: String,
    mut record: AccessRecord,
) -> Response<ResponseBody> {
    record.set_response(status, None);
    let mut response = Response::new(ResponseBody::Text(Some(Bytes::from(text)), Some(record)));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}
