//! Frontends with two-tier forwarding. A node tracks their connections for other nodes, whichever node owns the
//! address, so that open ones are not stale.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use dataplane::two_tier;

#[cfg(test)]
mod tests;

/// Frontends whose connections this node forwards, or serves for other nodes.
#[derive(Debug, Default)]
pub(crate) struct TwoTierFrontends {
    /// Addresses of Services that request two-tier forwarding.
    requested: BTreeSet<IpAddr>,
    /// Frontends in the kernel; `None` if they cannot be read. Proxies in modes without two-tier forwarding, kube-proxy,
    /// and proxies with too many such Services leave frontends out.
    forwarded: Option<BTreeSet<SocketAddr>>,
}

impl TwoTierFrontends {
    /// Reads the frontends of the addresses of Services that request two-tier forwarding.
    pub(crate) fn read(requested: BTreeSet<IpAddr>) -> Self {
        if requested.is_empty() {
            return Self::default();
        }
        let forwarded = match two_tier::forwarded_tcp_frontends() {
            Ok(frontends) => Some(frontends),
            Err(error) => {
                tracing::warn!(
                    %error,
                    "frontends of two-tier forwarding not listed; their open connections are not flushed"
                );
                None
            }
        };
        Self { requested, forwarded }
    }

    /// Returns true if the kernel forwards connections to a frontend. If that is not known, the request counts.
    pub(crate) fn contain(&self, frontend: SocketAddr) -> bool {
        self.requested.contains(&frontend.ip())
            && self
                .forwarded
                .as_ref()
                .is_none_or(|frontends| frontends.contains(&frontend))
    }
}
