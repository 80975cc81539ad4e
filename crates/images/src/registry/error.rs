//! Reasons why a pull fails.

use std::error::Error;
use std::time::Duration;

use super::hosts::HostsError;
use crate::config::ConfigError;
use crate::digest::Digest;
use crate::manifest::ManifestError;
use crate::store::StoreError;

/// Reason why a pull fails.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The configuration of registries is invalid.
    #[error(transparent)]
    Hosts(#[from] HostsError),
    /// The registry cannot be reached, or the connection broke. A retry can help.
    #[error("{host}: {cause}")]
    Connection {
        /// Host of the registry.
        host: String,
        /// Cause, with its causes.
        cause: String,
    },
    /// The registry does not have the manifest or layer, or does not show it without credentials.
    #[error("{host}: {subject} not found: {message}")]
    NotFound {
        /// Host of the registry.
        host: String,
        /// Missing part.
        subject: String,
        /// Message of the registry.
        message: String,
    },
    /// The registry requires other credentials.
    #[error("{host}: access denied ({status}): {message}; check the name of the image and the credentials")]
    Denied {
        /// Host of the registry.
        host: String,
        /// Status of the response.
        status: u16,
        /// Message of the registry.
        message: String,
    },
    /// The registry responds with another error. A retry can help if the status is 429 or above 499.
    #[error("{host}: unexpected status {status}: {message}")]
    Status {
        /// Host of the registry.
        host: String,
        /// Status of the response.
        status: u16,
        /// Message of the registry.
        message: String,
    },
    /// A response violates the protocol.
    #[error("{host}: {reason}")]
    Protocol {
        /// Host of the registry.
        host: String,
        /// Violation.
        reason: String,
    },
    /// Content has another digest.
    #[error("{host}: expected content with the digest {expected}, found {actual}")]
    Digest {
        /// Host of the registry.
        host: String,
        /// Digest in the reference or manifest.
        expected: Box<Digest>,
        /// Digest of the content.
        actual: Box<Digest>,
    },
    /// The registry sent nothing for too long. A retry can help.
    #[error("{host}: no data for {} s", after.as_secs_f32())]
    Stalled {
        /// Host of the registry.
        host: String,
        /// Time without data.
        after: Duration,
    },
    /// The registry sends a layer too slowly.
    #[error("{host}: less than {bytes_min} bytes of a layer in {} s", after.as_secs())]
    Slow {
        /// Host of the registry.
        host: String,
        /// Bytes that count as progress.
        bytes_min: u64,
        /// Time for these bytes.
        after: Duration,
    },
    /// The pull takes too long.
    #[error("the pull was not complete after {} s", .0.as_secs_f32())]
    Timeout(Duration),
    /// The manifest is invalid.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The store fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Several hosts failed, each for a reason of its own.
    #[error("{}", .0.iter().map(Self::to_string).collect::<Vec<_>>().join("; "))]
    All(Vec<Self>),
    /// No host is configured for this request.
    #[error("no host of hosts.toml has the capability {0:?}")]
    NoHost(&'static str),
    /// Other processes remove the layers of the image repeatedly.
    #[error("other processes removed layers of the image meanwhile; pull it again")]
    Removed,
    /// A thread of this process failed.
    #[error("a layer was not unpacked: {0}")]
    Thread(#[source] tokio::task::JoinError),
}

impl PullError {
    /// Returns the error of a request or of its response.
    pub(super) fn of_request(host: &str, error: reqwest::Error, stall_timeout: Duration) -> Self {
        let host = host.to_owned();
        if error.is_timeout() {
            return Self::Stalled {
                host,
                after: stall_timeout,
            };
        }
        let error = error.without_url();
        let mut cause = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            cause = format!("{cause}: {inner}");
            source = inner.source();
        }
        Self::Connection { host, cause }
    }

    pub(super) fn protocol(host: &str, reason: impl Into<String>) -> Self {
        Self::Protocol {
            host: host.to_owned(),
            reason: reason.into(),
        }
    }

    /// Returns `true` if the same request can succeed later.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Connection { .. } | Self::Stalled { .. } => true,
            Self::Status { status, .. } => *status == 429 || *status >= 500,
            _ => false,
        }
    }

    /// Returns `true` if another host can have the content.
    pub(super) fn is_of_host(&self) -> bool {
        !matches!(self, Self::Store(_) | Self::Timeout(_) | Self::Thread(_))
    }
}
