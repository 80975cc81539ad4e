//! Resource limits of this process.

/// Raises the limit of open files to the hard limit. Child processes inherit the limit; the agent sets another one for those
/// of Pods.
pub(crate) fn raise_open_files() {
    if let Err(error) = netlink::rlimit::raise_open_files() {
        tracing::warn!(%error, "limit of open files not raised");
    }
}
