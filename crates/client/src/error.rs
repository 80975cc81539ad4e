//! What can go wrong with a request.

use std::time::Duration;

use serde::Deserialize;

/// Why a request did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server answered with a failure `Status`.
    #[error("{method} {path}: {status}")]
    Status {
        /// The request's method.
        method: http::Method,
        /// The request's path.
        path: String,
        /// What the server said.
        status: Status,
    },
    /// No answer came: connection refused, reset, TLS failure. Retrying may help.
    #[error("{method} {path}: no answer from {server}: {}", innermost(source.as_ref()))]
    Transport {
        /// The request's method.
        method: http::Method,
        /// The request's path.
        path: String,
        /// The server's address.
        server: String,
        /// What failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server took longer than allowed. Retrying may help.
    #[error("{method} {path}: no answer within {limit:?}")]
    Timeout {
        /// The request's method.
        method: http::Method,
        /// The request's path.
        path: String,
        /// How long was waited.
        limit: Duration,
    },
    /// The answer is not what the request asks for.
    #[error("{path}: the answer cannot be read: {source}")]
    Decode {
        /// The request's path.
        path: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The answer is larger than any list may be.
    #[error("{path}: the answer is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The request's path.
        path: String,
        /// The limit.
        limit_bytes: usize,
    },
    /// A write that was not sent, since this process does not hold the lease that permits it. Whoever holds
    /// it does what is to be done.
    #[error("{method} {path}: not sent, this process does not hold the lease")]
    Fenced {
        /// The request's method.
        method: http::Method,
        /// The request's path.
        path: String,
    },
    /// The request could not be built, which no retry mends.
    #[error("{path}: not a valid request: {source}")]
    Request {
        /// The request's path.
        path: String,
        /// What is wrong with it.
        source: http::Error,
    },
}

/// The cause behind all others: "client error (Connect)" alone tells nobody what to mend.
fn innermost<'a>(error: &'a (dyn std::error::Error + 'static)) -> &'a (dyn std::error::Error + 'static) {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause
}

impl ClientError {
    /// The HTTP status code that the server answered with, if it answered.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(status.code),
            _ => None,
        }
    }

    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Whether the server lets this client not do it.
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// Whether somebody else wrote first, or the object exists already.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// Whether the revision asked for is gone from the server's history.
    pub fn is_gone(&self) -> bool {
        self.code() == Some(410)
    }

    /// Whether the server has not come to the revision asked for: it lags behind others, or its history was replaced by
    /// an older one.
    pub fn is_ahead_of_server(&self) -> bool {
        match self {
            Self::Status { status, .. } => {
                status.code == 504 && status.message.starts_with("Too large resource version")
            }
            _ => false,
        }
    }

    /// Whether nothing can be created since the namespace is being deleted; no retry mends that.
    pub fn is_namespace_terminating(&self) -> bool {
        let Self::Status { status, .. } = self else {
            return false;
        };
        let mut causes = status.details.causes.iter();
        causes.any(|cause| cause.reason == "NamespaceTerminating")
    }
}

/// A failure as the API describes it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// One word for programs: `NotFound`, `Conflict`, `Invalid` …
    pub reason: String,
    /// A sentence for people.
    pub message: String,
    /// What lies behind it.
    pub details: StatusDetails,
}

/// What lies behind a failure.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct StatusDetails {
    /// The causes, if the server names any.
    pub causes: Box<[StatusCause]>,
}

/// A cause of a failure.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    /// One word for programs: `NamespaceTerminating`, `FieldValueInvalid` …
    pub reason: String,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.code, self.reason, self.message)
    }
}
