//! Outcome of the last write of an engine.

use std::sync::{Mutex, PoisonError};

use crate::{CommitError, Revision};

/// Outcome of the last write. A conflict is not a failure of the engine.
#[derive(Debug, Default)]
pub(crate) struct WriteHealth(Mutex<Option<String>>);

impl WriteHealth {
    /// Records the outcome of a write.
    pub(crate) fn record(&self, result: &Result<Revision, CommitError>) {
        let failure = match result {
            Err(CommitError::Store(error)) => Some(error.to_string()),
            Err(CommitError::Conflict { .. } | CommitError::Malformed { .. }) => return,
            Ok(_) => None,
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// Returns the reason if the last write failed.
    pub(crate) fn failure(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests;
