//! Errors of subcommands: usage, values and files.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

/// Error that ends a subcommand. The crates that it assembles have error types of their own.
pub(crate) type CommandError = Box<dyn Error + Send + Sync>;

/// Invalid value of a flag that is found after parsing. The exit code is that of an invalid command line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub String);

impl UsageError {
    /// Returns the error with a message that names the flag.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Value of a flag that does not have the expected form.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {value:?}")]
pub(crate) struct InvalidValue {
    value: String,
    expected: &'static str,
}

impl InvalidValue {
    /// Returns the error for a text. `expected` is a noun phrase with an example.
    pub(crate) fn new(value: &str, expected: &'static str) -> Self {
        Self {
            value: value.to_owned(),
            expected,
        }
    }
}

/// Failed access to a file or directory.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub(crate) struct FileError {
    /// Path of the file.
    pub path: PathBuf,
    /// Error of the system call.
    pub source: io::Error,
}

impl FileError {
    /// Returns a conversion of errors about a path, for `map_err`.
    pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        |source| Self {
            path: path.to_owned(),
            source,
        }
    }
}

/// Returns true if an error is a [`UsageError`] or has one as a cause.
pub(crate) fn is_usage(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<UsageError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests;
