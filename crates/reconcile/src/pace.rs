//! Pauses of keys whose work rewrites large objects.
//!
//! The API server keeps the previous version of each changed object in a history of bounded size, from which the watches of
//! all clients continue. The status of an owner changes with its Pods, possibly many times a second. If the owner is large,
//! its writes would replace the history within a second. A client whose list takes longer could then begin no watch.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// Bytes of large objects that the work on one key may rewrite in a second. The work on all keys of one tenant has the
/// same limit. The API server permits users the same rate in a namespace.
const BYTES_PER_SECOND: u64 = 256 << 10;
/// Bytes of large objects of one tenant that are rewritten without pauses of their keys: a few changes of the Endpoints of a
/// large Service reach clients at once.
const UNPACED_BYTES: u64 = 2 << 20;
/// Bytes of large objects of one tenant that are rewritten at once. Beyond them, all keys of the tenant are held.
const TENANT_BURST_BYTES: u64 = 4 << 20;
/// Longest pause after one job, which may rewrite hundreds of objects.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Keys and tenants whose work has rewritten large objects.
#[derive(Debug)]
pub(crate) struct Pace<K> {
    /// End of the pause of each key.
    keys: HashMap<K, Instant>,
    /// Time at which the rate permits all that a tenant has rewritten.
    tenants: HashMap<Box<str>, Instant>,
}

impl<K> Default for Pace<K> {
    fn default() -> Self {
        Self {
            keys: HashMap::new(),
            tenants: HashMap::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Pace<K> {
    /// Counts the bytes of large objects that the work on a key has rewritten.
    pub(crate) fn count(&mut self, key: &K, tenant: &str, bytes: usize, now: Instant) {
        if bytes == 0 {
            return;
        }
        self.keys.retain(|_, until| *until > now);
        self.tenants.retain(|_, permitted_at| *permitted_at > now);
        let pause = duration_of(u64::try_from(bytes).unwrap_or(u64::MAX)).min(PAUSE_MAX);
        self.keys.insert(key.clone(), now + pause);
        *self.tenants.entry(tenant.into()).or_insert(now) += pause;
    }

    /// Returns the time before which no work on a key begins; `None` if it may begin now.
    pub(crate) fn held_until(&self, key: &K, tenant: &str, now: Instant) -> Option<Instant> {
        let permitted_at = *self.tenants.get(tenant)?;
        let exceeds = |bytes| permitted_at > now + duration_of(bytes);
        let of_key = self.keys.get(key).copied().filter(|_| exceeds(UNPACED_BYTES));
        let of_tenant = permitted_at.checked_sub(duration_of(TENANT_BURST_BYTES));
        of_key.max(of_tenant).filter(|until| *until > now)
    }
}

/// Returns the time for which the rate permits these bytes.
fn duration_of(bytes: u64) -> Duration {
    Duration::from_micros(bytes.saturating_mul(1_000_000) / BYTES_PER_SECOND)
}
