//! Reasons why requests are rejected, and the statuses of the responses.

use http::StatusCode;

use super::head::{FIELDS_MAX, HEAD_BYTES_MAX, TARGET_BYTES_MAX};

/// Reason why a request is not forwarded: it is invalid, exceeds a limit, or has a method that is not served. The same
/// request fails again, except for [`RequestRejection::Slow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestRejection {
    /// The request violates HTTP, or is ambiguous: edge and backend could parse it differently (RFC 9112, section
    /// 11.2).
    #[error("malformed request: {0}")]
    Malformed(&'static str),
    /// The target is too long.
    #[error(
        "expected a request target of at most {TARGET_BYTES_MAX} bytes, found a longer one; shorten the URL"
    )]
    TargetTooLong,
    /// The header section is too large, or has too many fields.
    #[error(
        "expected at most {FIELDS_MAX} header fields and {HEAD_BYTES_MAX} bytes of headers, found more; send fewer or \
         shorter headers"
    )]
    HeadTooLarge,
    /// The request did not arrive in time.
    #[error("the request did not arrive within its timeout; send it faster")]
    Slow,
    /// The method is not for a reverse proxy.
    #[error("the method {0} is not served here")]
    Method(&'static str),
    /// The body has an unknown transfer coding.
    #[error("expected the transfer coding chunked, found another one")]
    TransferCoding,
    /// The version of HTTP is unknown.
    #[error("expected HTTP/1.0, HTTP/1.1 or HTTP/2, found another version")]
    Version,
}

impl RequestRejection {
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
