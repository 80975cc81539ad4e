//! Conversion of errors into responses.

use api::decode::DecodeError;
use api::kind::Kind;
use http::StatusCode;
use store::{CommitError, StoreError};

use super::Failure;
use crate::registry::service;

/// Message for lists and watches of a compacted revision (upstream's text).
const TOO_OLD_MESSAGE: &str = "The provided resource version is too old to display a consistent list.";

impl Failure {
    /// Converts a decoding error: 413 for a body with too many values, otherwise 400.
    pub fn of_decode(error: &DecodeError) -> Failure {
        let message = error.to_string();
        match error {
            DecodeError::TooManyValues => {
                Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
            }
            _ => Failure::bad_request(message),
        }
    }

    /// Converts an error of a store read.
    pub fn of_read(error: &StoreError) -> Failure {
        match error {
            StoreError::Compacted { .. } => Failure::expired(TOO_OLD_MESSAGE),
            StoreError::Future { requested, current } => Failure::version_too_large(*requested, *current),
            other => Failure::of_store(other),
        }
    }

    /// Converts an error of a commit that is not a conflict of the request.
    pub fn of_commit(error: &CommitError) -> Failure {
        match error {
            CommitError::Store(error) => Failure::of_store(error),
            CommitError::Conflict { .. } | CommitError::Malformed { .. } => {
                tracing::error!(%error, "transaction failed");
                Failure::internal("the change could not be written")
            }
        }
    }

    /// Converts an error of the Service registry.
    pub(crate) fn of_allocation(failure: service::Failure, kind: &Kind, name: &str) -> Failure {
        match failure {
            service::Failure::Invalid(errors) => Failure::invalid(kind, name, &errors),
            service::Failure::Internal(message) => Failure::internal(message),
            service::Failure::Unclassified(message) => {
                Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
            }
        }
    }

    /// Converts an unavailable store into 503. The store logs the start and end of an outage, so requests log at
    /// debug level only.
    fn of_store(error: &StoreError) -> Failure {
        tracing::debug!(%error, "store request failed");
        let mut failure = Failure::unavailable(format!("{error}; please try again later"));
        failure.details.insert("retryAfterSeconds".into(), 1.into());
        failure
    }
}
