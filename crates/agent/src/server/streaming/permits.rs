//! Permits of sessions, with a limit in total, a share for each namespace and a limit for each Pod. The API server limits
//! each user, but a tenant can have several, such as ServiceAccounts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use counting::{NamespaceShare, NamespaceShares};

/// Maximum number of sessions of the node.
pub(super) const TOTAL_MAX: usize = 256;
/// Maximum number of sessions of one Pod: many terminals and forwarded ports, too few to exhaust the node.
pub(super) const PER_POD_MAX: usize = 32;

/// Pool of permits. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct SessionPermits {
    shares: Arc<NamespaceShares>,
    /// Number of sessions of each Pod with any, by `namespace/name`.
    issued: Arc<Mutex<HashMap<String, usize>>>,
}

/// Right to serve one session, until it is dropped.
#[derive(Debug)]
pub(super) struct SessionPermit {
    pool: SessionPermits,
    pod: String,
    _share: NamespaceShare,
}

impl SessionPermits {
    /// Creates the permits of a node.
    pub(super) fn new() -> Self {
        Self {
            shares: NamespaceShares::of(TOTAL_MAX),
            issued: Arc::default(),
        }
    }

    /// Returns a permit for a session of a Pod, unless a limit is reached.
    pub(super) fn acquire(&self, namespace: &str, pod: &str) -> Option<SessionPermit> {
        let pod = format!("{namespace}/{pod}");
        let mut issued = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        let pod_count = issued.get(&pod).copied().unwrap_or_default();
        if pod_count >= PER_POD_MAX {
            return None;
        }
        let share = self.shares.take(namespace)?;
        issued.insert(pod.clone(), pod_count + 1);
        Some(SessionPermit {
            pool: self.clone(),
            pod,
            _share: share,
        })
    }
}

impl Drop for SessionPermit {
    fn drop(&mut self) {
        let mut issued = self.pool.issued.lock().unwrap_or_else(PoisonError::into_inner);
        match issued.get_mut(&self.pod) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(issued.remove(&self.pod)),
        }
    }
}

#[cfg(test)]
mod tests;
