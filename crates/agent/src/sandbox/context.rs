//! Errors with the operation that failed.

use std::io;

/// Prefixes an error with the operation that failed.
pub(super) fn with_context(operation: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{operation}: {error}"))
}
