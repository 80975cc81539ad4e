//! Why a request is not passed on, and what its client is told.

use http::StatusCode;

/// A request that is not passed on. Sending the same again does not help, but for [`Refusal::Slow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It breaks a rule of HTTP, or says one thing twice and differently, as requests do that are to be read differently by
    /// the edge and by the backend behind it (RFC 9112, 11.2).
    #[error("malformed request: {0}")]
    Malformed(&'static str),
    /// Its target is longer than is read.
    #[error("the request's target is too long")]
    TargetTooLong,
    /// Its header section is larger than is read, or has too many fields.
    #[error("the request's header section is too large")]
    HeadTooLarge,
    /// It did not arrive in time.
    #[error("the request took too long to arrive")]
    Slow,
    /// Its method is not for a server in front of others.
    #[error("the method {0} is not served here")]
    Method(&'static str),
    /// Its body is coded in a way that is not known here.
    #[error("the request has a transfer coding other than chunked")]
    TransferCoding,
    /// It is of a version of HTTP that is not known here.
    #[error("the version of HTTP is not served here")]
    Version,
}

impl Refusal {
    /// What the client is answered (RFC 9110, 15).
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
