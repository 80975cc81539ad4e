//! Reasons why a copy, snapshot or restoration fails.

use crate::StoreError;

/// Failure to write contents.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The destination contains data.
    #[error("{destination} is not empty; set --overwrite to replace it")]
    NotEmpty {
        /// Directory, file or etcd prefix.
        destination: String,
    },
    /// Reading or writing failed. In etcd, the data written so far remains, marked as incomplete.
    #[error(transparent)]
    Store(#[from] StoreError),
}
