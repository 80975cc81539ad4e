//! Reasons why nftables cannot be read, or why a batch is refused.

use std::fmt;
use std::io;

/// A message of a batch that the kernel refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Owner of the message, as passed to the batch; `None` if the kernel refused the batch itself.
    pub owner: Option<u32>,
    /// Description of the message, for example `add elements to services4`.
    pub operation: String,
    /// Errno of the kernel.
    pub errno: i32,
    /// Text of the kernel.
    pub text: Option<String>,
}

impl Refusal {
    /// Returns true if the kernel's state differs from the expected one: an object exists already, or is missing.
    pub fn is_drift(&self) -> bool {
        matches!(
            self.errno,
            libc::ENOENT | libc::EEXIST | libc::EBUSY | libc::ENOTEMPTY
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = io::Error::from_raw_os_error(self.errno);
        write!(f, "{}: {error}", self.operation)?;
        match &self.text {
            Some(text) => write!(f, ": {text}"),
            None => Ok(()),
        }
    }
}

/// Reasons why a batch is not committed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The socket failed. `ENOBUFS` and `ENOMEM` are temporary.
    #[error("nftables: netlink socket: {source}")]
    Socket {
        /// Error of the system call.
        #[from]
        source: io::Error,
    },
    /// CAP_NET_ADMIN is missing in the user namespace that owns the network namespace. A retry does not help.
    #[error("nftables: not permitted: the capability CAP_NET_ADMIN is missing (run as root, or grant it)")]
    NotPermitted,
    /// The ruleset has another generation than the batch. Read the state again and retry.
    #[error("nftables: the ruleset was changed concurrently")]
    Changed,
    /// The kernel refused messages. The batch may succeed without them.
    #[error("nftables: {} of the batch's messages refused, first: {}", refusals.len(), first_refusal(refusals))]
    Refused {
        /// All refused messages in the order of the batch; never empty.
        refusals: Vec<Refusal>,
    },
}

/// Reasons why the ruleset could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The socket failed, or the kernel refused. `ENOENT` means that the table or set does not exist.
    #[error("nftables: {operation}: {source}")]
    Socket {
        /// Description of the request.
        operation: &'static str,
        /// Error of the system call or of the kernel.
        source: io::Error,
    },
    /// CAP_NET_ADMIN is missing. A retry does not help.
    #[error("nftables: not permitted: the capability CAP_NET_ADMIN is missing (run as root, or grant it)")]
    NotPermitted,
    /// Concurrent changes interrupted every attempt. Retry later.
    #[error("nftables: {operation}: the ruleset changed during each of {attempts} attempts; retry later")]
    Inconsistent {
        /// Description of the request.
        operation: &'static str,
        /// Number of attempts.
        attempts: usize,
    },
}

impl CommitError {
    /// Returns true if the kernel lacks nf_tables, or the IP family in it.
    pub fn is_unsupported(&self) -> bool {
        let is_unsupported = |errno| {
            matches!(
                errno,
                libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT
            )
        };
        match self {
            Self::Socket { source } => source.raw_os_error().is_some_and(is_unsupported),
            Self::Refused { refusals } => refusals.iter().all(|refusal| is_unsupported(refusal.errno)),
            Self::NotPermitted | Self::Changed => false,
        }
    }
}

fn first_refusal(refusals: &[Refusal]) -> String {
    refusals.first().map(Refusal::to_string).unwrap_or_default()
}
