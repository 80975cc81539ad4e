//! Reasons why a request to the API server fails.

use std::time::Duration;

use serde::Deserialize;

/// Failure of a request.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server responded with a failure `Status`.
    #[error("{method} {path}: {status}")]
    Status {
        /// Method of the request.
        method: http::Method,
        /// Path of the request.
        path: String,
        /// Status of the response.
        status: Status,
    },
    /// No response: connection refused, reset, TLS failure. A retry may succeed.
    #[error("{method} {path}: no response from {server}: {}", innermost(source.as_ref()))]
    Transport {
        /// Method of the request.
        method: http::Method,
        /// Path of the request.
        path: String,
        /// Address of the server.
        server: String,
        /// Error of the transport.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The request timed out. A retry may succeed.
    #[error("{method} {path}: no response within {limit:?}")]
    Timeout {
        /// Method of the request.
        method: http::Method,
        /// Path of the request.
        path: String,
        /// Timeout that the request exceeded.
        limit: Duration,
    },
    /// The response does not match the request.
    #[error("{path}: the response cannot be read: {source}")]
    Decode {
        /// Path of the request.
        path: String,
        /// Description of the fault.
        source: serde_json::Error,
    },
    /// The response exceeds the limit.
    #[error("{path}: expected a response of at most {limit_bytes} bytes, found a larger one")]
    TooLarge {
        /// Path of the request.
        path: String,
        /// Limit in bytes.
        limit_bytes: usize,
    },
    /// The write was not sent, because this process does not hold the lease that permits it. The holder does the
    /// work.
    #[error("{method} {path}: not sent, this process does not hold the lease")]
    Fenced {
        /// Method of the request.
        method: http::Method,
        /// Path of the request.
        path: String,
    },
    /// The request is invalid; a retry fails as well.
    #[error("{path}: not a valid request: {source}")]
    Request {
        /// Path of the request.
        path: String,
        /// Description of the fault.
        source: http::Error,
    },
}

/// Returns the innermost source: "client error (Connect)" alone does not show the cause.
fn innermost<'a>(error: &'a (dyn std::error::Error + 'static)) -> &'a (dyn std::error::Error + 'static) {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause
}

impl ClientError {
    /// Returns the HTTP status code of the response, if there was one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(status.code),
            _ => None,
        }
    }

    /// Returns true if the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Returns true if the client lacks the permission.
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// Returns true if the object was changed concurrently, or exists already.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// Returns true if the requested revision is compacted.
    pub fn is_gone(&self) -> bool {
        self.code() == Some(410)
    }

    /// Returns true if the requested revision is newer than the server's history. The server lags behind others, or
    /// was restored from an older snapshot. The API has no reason code for it, so the message decides.
    pub fn is_ahead_of_server(&self) -> bool {
        match self {
            Self::Status { status, .. } => {
                status.code == 504 && status.message.starts_with("Too large resource version")
            }
            _ => false,
        }
    }

    /// Returns true if the namespace is terminating, in which nothing can be created; a retry fails as well.
    pub fn is_namespace_terminating(&self) -> bool {
        let Self::Status { status, .. } = self else {
            return false;
        };
        let mut causes = status.details.causes.iter();
        causes.any(|cause| cause.reason == "NamespaceTerminating")
    }
}

/// A failure status of the API.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason: `NotFound`, `Conflict`, `Invalid` …
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// Details of the failure.
    pub details: StatusDetails,
}

/// Details of a failure.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct StatusDetails {
    /// Causes, if the server reports any.
    pub causes: Box<[StatusCause]>,
}

/// A cause of a failure.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    /// Machine-readable reason: `NamespaceTerminating`, `FieldValueInvalid` …
    pub reason: String,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.code)?;
        // Responses in plain text have none.
        if !self.reason.is_empty() {
            write!(f, " {}", self.reason)?;
        }
        write!(f, ": {}", self.message)
    }
}

#[cfg(test)]
mod tests;
