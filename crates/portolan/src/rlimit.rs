//! Resource limits of this process.

/// Raises the limit of open files to the hard limit. Not for processes that start other programs, which inherit it.
pub fn raise_open_files() {
    if let Err(error) = netlink::rlimit::raise_open_files() {
        tracing::warn!(%error, "limit of open files not raised");
    }
}
