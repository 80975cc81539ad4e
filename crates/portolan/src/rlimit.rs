//! Resource limits of this process.

/// Raises the limit of open files to the hard limit. Child processes inherit the limit, so the agent does not call
/// this.
pub(crate) fn raise_open_files() {
    if let Err(error) = netlink::rlimit::raise_open_files() {
        tracing::warn!(%error, "limit of open files not raised");
    }
}
