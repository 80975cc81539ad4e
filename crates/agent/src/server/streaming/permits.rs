//! Permits of sessions, with a limit in total and a limit for each Pod. The API server limits each user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of sessions of the node.
pub(super) const TOTAL_MAX: usize = 256;
/// Maximum number of sessions of one Pod: many terminals and forwarded ports, too few to exhaust the node.
pub(super) const PER_POD_MAX: usize = 32;

/// Pool of permits. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionPermits {
    issued: Arc<Mutex<HashMap<String, usize>>>,
}

/// Right to serve one session, until it is dropped.
#[derive(Debug)]
pub(super) struct SessionPermit {
    pool: SessionPermits,
    pod: String,
}

impl SessionPermits {
    /// Returns a permit for a session of a Pod, unless a limit is reached.
    pub(super) fn acquire(&self, pod: &str) -> Option<SessionPermit> {
        let mut issued = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = issued.values().sum();
        let pod_count = issued.get(pod).copied().unwrap_or_default();
        if total >= TOTAL_MAX || pod_count >= PER_POD_MAX {
            return None;
        }
        issued.insert(pod.to_owned(), pod_count + 1);
        Some(SessionPermit {
            pool: self.clone(),
            pod: pod.to_owned(),
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
