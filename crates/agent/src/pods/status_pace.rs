//! Pace at which the statuses of large Pods are written.
//!
//! The API server keeps the previous version of each changed object in a history of bounded size, from which the watches of
//! all clients continue. Some large Pods whose readiness changes each second would replace the history within seconds.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

#[cfg(test)]
mod tests;

/// Size from which a Pod is large.
const LARGE_BYTES: usize = 64 << 10;
/// Bytes of large Pods of a namespace that the agent rewrites in a second. The API server permits users the same rate.
const BYTES_PER_SECOND: u64 = 256 << 10;
/// Bytes of large Pods of a namespace that the agent rewrites at once. A hundred Pods of 80 KiB that start together do not
/// wait.
const BURST_BYTES: u64 = 8 << 20;

/// Namespaces whose large Pods the agent has rewritten. The value is the time at which the rate permits all these writes.
#[derive(Debug, Default)]
pub(crate) struct StatusPace(Mutex<HashMap<String, Instant>>);

impl StatusPace {
    /// Reserves a write of the status of a Pod with this size. Returns the time from which it is permitted.
    pub(crate) fn reserve(&self, namespace: &str, pod_bytes: usize, now: Instant) -> Instant {
        if pod_bytes < LARGE_BYTES {
            return now;
        }
        let mut namespaces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        namespaces.retain(|_, permitted_at| *permitted_at > now);
        let permitted_at = namespaces.entry(namespace.to_owned()).or_insert(now);
        let turn = permitted_at.checked_sub(duration_of(BURST_BYTES));
        *permitted_at += duration_of(u64::try_from(pod_bytes).unwrap_or(u64::MAX));
        turn.map_or(now, |turn| turn.max(now))
    }
}

/// Returns the time for which the rate permits these bytes.
fn duration_of(bytes: u64) -> Duration {
    Duration::from_micros(bytes.saturating_mul(1_000_000) / BYTES_PER_SECOND)
}
