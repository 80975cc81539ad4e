//! Malformed objects: logged and skipped, so that one of them does not affect the others.

use api::object::{ObjectKey, Resource};

/// Logs an object that cannot be decoded.
pub(crate) fn log_malformed<T: Resource>(key: &ObjectKey, error: &str) {
    tracing::error!(kind = T::KIND, %key, error, "malformed object skipped");
}
