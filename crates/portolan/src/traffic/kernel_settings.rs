//! Sysctls of connection tracking in this network namespace.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::FileError;

/// Directory of the sysctls.
const DIRECTORY: &str = "/proc/sys/net/netfilter";
/// Sysctl of byte and packet counters.
pub(crate) const ACCOUNTING: &str = "nf_conntrack_acct";
/// Sysctl of events.
const EVENTS: &str = "nf_conntrack_events";

/// Returns true if new entries have byte and packet counters.
pub(crate) fn counts_bytes() -> bool {
    read(ACCOUNTING).is_some_and(|value| value == "1")
}

/// Returns true if the kernel sends events to listeners.
pub(crate) fn sends_events() -> bool {
    read(EVENTS).is_some_and(|value| value != "0")
}

/// Turns byte and packet counters on. Entries that exist have none.
///
/// # Errors
///
/// [`FileError`] if the sysctl cannot be written: the process is not root, or `/proc/sys` is read-only.
pub(crate) fn enable_accounting() -> Result<(), FileError> {
    let path = path(ACCOUNTING);
    std::fs::write(&path, "1").map_err(FileError::at(&path))
}

fn read(name: &str) -> Option<String> {
    match std::fs::read_to_string(path(name)) {
        Ok(text) => Some(text.trim().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            tracing::debug!(%error, name, "sysctl not read");
            None
        }
    }
}

fn path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}
