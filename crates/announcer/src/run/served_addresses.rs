//! Addresses that the edge of this process serves.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::watch;

/// Addresses of the edge, and their changes.
pub(crate) struct ServedAddresses(Option<watch::Receiver<Arc<BTreeSet<IpAddr>>>>);

impl ServedAddresses {
    /// Creates the addresses of a process; `None` without an edge.
    pub(crate) fn new(receiver: Option<watch::Receiver<Arc<BTreeSet<IpAddr>>>>) -> Self {
        Self(receiver)
    }

    /// Returns true if the process runs an edge.
    pub(crate) fn has_edge(&self) -> bool {
        self.0.is_some()
    }

    /// Returns true if the edge serves an address.
    pub(crate) fn contain(&self, address: IpAddr) -> bool {
        let served = self.0.as_ref();
        served.is_some_and(|served| served.borrow().contains(&address))
    }

    /// Waits for the next change; never resolves without an edge.
    pub(crate) async fn changed(&mut self) {
        if let Some(served) = &mut self.0
            && served.changed().await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }

    /// Returns true if the addresses changed since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        self.0.as_mut().is_some_and(|served| {
            let is_changed = served.has_changed().unwrap_or(false);
            served.mark_unchanged();
            is_changed
        })
    }
}
