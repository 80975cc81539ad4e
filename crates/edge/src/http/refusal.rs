//! Reasons why requests are refused, and the statuses of the responses.

use http::StatusCode;

/// Reason why a request is not forwarded. The same request fails again, except for
/// [`RequestRefusal::Slow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestRefusal {
    /// The request violates HTTP, or is ambiguous: edge and backend could parse it differently (RFC 9112, section
    /// 11.2).
    #[error("malformed request: {0}")]
    Malformed(&'static str),
    /// The target is too long.
    #[error("the request's target is too long")]
    TargetTooLong,
    /// Its header section is too large, or has too many fields.
    #[error("the request's header section is too large")]
    HeadTooLarge,
    /// Did not arrive in time.
    #[error("the request took too long to arrive")]
    Slow,
    /// The method is not for a reverse proxy.
    #[error("the method {0} is not served here")]
    Method(&'static str),
    /// The body has an unknown transfer coding.
    #[error("the request has a transfer coding other than chunked")]
    TransferCoding,
    /// Its version of HTTP is unknown.
    #[error("the version of HTTP is not served here")]
    Version,
}

impl RequestRefusal {
    /// Returns the status of the response (RFC 9110, section 15).
    pub fn status(self) -> StatusCode {
        match self {
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::TransferCoding => StatusCode::NOT_IMPLEMENTED,
            Self::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
        }
    }
}
