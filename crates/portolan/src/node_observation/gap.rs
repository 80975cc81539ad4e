//! Parts of an observation that are absent or incomplete, with the reasons.

use std::collections::BTreeSet;
use std::io;

use netlink::conntrack::ConntrackError;
use netlink::nftables::ReadError;
use netlink::route::RouteError;

/// Reason why a part cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReadFailure {
    /// A privilege is missing.
    #[error("not permitted")]
    NotPermitted,
    /// Another reason.
    #[error("{0}")]
    Other(String),
}

impl From<io::Error> for ReadFailure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted,
            _ => Self::Other(error.to_string()),
        }
    }
}

impl From<ReadError> for ReadFailure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotPermitted => Self::NotPermitted,
            error => Self::Other(error.to_string()),
        }
    }
}

impl From<RouteError> for ReadFailure {
    fn from(error: RouteError) -> Self {
        match error.errno() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted,
            _ => Self::Other(error.to_string()),
        }
    }
}

impl From<ConntrackError> for ReadFailure {
    fn from(error: ConntrackError) -> Self {
        match error {
            ConntrackError::Open(source) | ConntrackError::List(source) => source.into(),
            error @ (ConntrackError::Inconsistent | ConntrackError::Delete { .. }) => {
                Self::Other(error.to_string())
            }
        }
    }
}

/// Absent and incomplete parts of an observation.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Gaps {
    not_permitted: BTreeSet<&'static str>,
    failed: BTreeSet<String>,
    truncated: BTreeSet<&'static str>,
}

impl Gaps {
    /// Returns the value of a part, or records the reason why it is absent.
    pub(crate) fn take<T>(&mut self, part: &'static str, result: Result<T, ReadFailure>) -> Option<T> {
        match result {
            Ok(value) => return Some(value),
            Err(ReadFailure::NotPermitted) => self.not_permitted.insert(part),
            Err(ReadFailure::Other(reason)) => self.failed.insert(format!("{part} not read: {reason}")),
        };
        None
    }

    /// Records that a part has more entries than the observation.
    pub(crate) fn truncate(&mut self, part: &'static str) {
        self.truncated.insert(part);
    }

    /// Adds the gaps of another reader.
    pub(crate) fn merge(&mut self, other: Self) {
        self.not_permitted.extend(other.not_permitted);
        self.failed.extend(other.failed);
        self.truncated.extend(other.truncated);
    }

    /// Returns the names of incomplete parts.
    pub(crate) fn truncated(&self) -> Vec<String> {
        self.truncated.iter().map(|part| (*part).to_owned()).collect()
    }

    /// Returns a warning for each reason.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self.failed.iter().cloned().collect();
        let list = |parts: &BTreeSet<&str>| parts.iter().copied().collect::<Vec<_>>().join(", ");
        if !self.not_permitted.is_empty() {
            let parts = list(&self.not_permitted);
            warnings.push(format!("not permitted to read {parts}: run as root"));
        }
        if !self.truncated.is_empty() {
            let parts = list(&self.truncated);
            warnings.push(format!("only a part is read of {parts}"));
        }
        warnings
    }
}

#[cfg(test)]
mod tests;
