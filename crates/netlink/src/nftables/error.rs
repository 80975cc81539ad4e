//! What can go wrong with nftables.

use std::fmt;
use std::io;

/// One message of a batch that the kernel refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Whose message it was: the number that it was put into the batch with. `None` if the kernel refused the
    /// batch as such.
    pub owner: Option<u32>,
    /// What the message was, like `add elements to services4`.
    pub operation: String,
    /// Why, as an errno.
    pub errno: i32,
    /// The kernel's own words.
    pub text: Option<String>,
}

impl Refusal {
    /// Whether the kernel's state is not what the message expected: something is there already, or is not.
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

/// Why a batch is not in force. Nothing of it is.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The socket could not be written or read. `ENOBUFS` and `ENOMEM` pass; retry later.
    #[error("nftables: netlink socket: {source}")]
    Socket {
        /// What failed.
        #[from]
        source: io::Error,
    },
    /// CAP_NET_ADMIN is missing in the user namespace that owns the network namespace. No retry mends it.
    #[error("nftables: not permitted: the capability CAP_NET_ADMIN is missing (run as root, or grant it)")]
    NotPermitted,
    /// The ruleset is not of the generation that the batch was made for. Read back and try again.
    #[error("nftables: the ruleset was changed by another program meanwhile")]
    Changed,
    /// The kernel refused these messages. Without them the others may be taken.
    #[error("nftables: {} of the batch's messages refused, first: {}", refusals.len(), first(refusals))]
    Refused {
        /// All that were refused, in the order of the batch; never empty.
        refusals: Vec<Refusal>,
    },
}

/// Why the ruleset could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The socket could not be written or read, or the kernel refused. `ENOENT`: the table or set is not there.
    #[error("nftables: {operation}: {source}")]
    Socket {
        /// What was read.
        operation: &'static str,
        /// What failed.
        source: io::Error,
    },
    /// CAP_NET_ADMIN is missing. No retry mends it.
    #[error("nftables: not permitted: the capability CAP_NET_ADMIN is missing (run as root, or grant it)")]
    NotPermitted,
    /// Every attempt was torn by changes that other programs made. Retry later.
    #[error("nftables: {operation}: the ruleset changed during each of {attempts} attempts")]
    Torn {
        /// What was read.
        operation: &'static str,
        /// How often it was tried.
        attempts: usize,
    },
}

fn first(refusals: &[Refusal]) -> String {
    refusals.first().map(Refusal::to_string).unwrap_or_default()
}
