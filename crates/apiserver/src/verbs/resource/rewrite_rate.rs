//! Rates at which users rewrite the objects of a namespace, and a node those of one kind.
//!
//! The history of the store, from which watches continue, keeps the previous version of each changed object. One bound applies
//! to the histories of all kinds. An editor of one namespace could replace the whole history within a second, by changes of
//! large objects. A client whose list takes longer than a second could then begin no watch, and would list for ever.
//!
//! A node may be compromised, so it has rates, too: one for each kind, so that many statuses of Pods delay no Lease.
//!
//! New objects have no previous version, and do not count.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::Resources;
use crate::access::authentication::Identity;
use crate::access::flow_control::is_reserved_for;
use crate::failure::Failure;
use crate::request::route::Target;

#[cfg(test)]
mod tests;

/// Bytes that users may rewrite in a namespace at once, or a node of one kind: half of the history.
const BURST_BYTES: f64 = 16.0 * 1024.0 * 1024.0;
/// Bytes that users may rewrite in a namespace in a second. The history then lasts for a minute.
const USER_BYTES_PER_SECOND: f64 = 256.0 * 1024.0;
/// Bytes of one kind that a node may rewrite in a second: 100 statuses of Pods of 10 KiB.
const NODE_BYTES_PER_SECOND: f64 = 1024.0 * 1024.0;
/// Maximum number of buckets in the table. When it is reached, buckets without recent changes are dropped.
const BUCKETS_MAX: usize = 10_000;

/// Rates of all namespaces and nodes.
#[derive(Debug, Default)]
pub(crate) struct RewriteRates(Mutex<HashMap<Box<str>, Bucket>>);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    bytes_per_second: f64,
    /// Bytes that may be rewritten; negative after a large object.
    bytes: f64,
    updated: Instant,
}

impl Bucket {
    fn bytes_at(self, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(self.updated).as_secs_f64();
        (self.bytes + seconds * self.bytes_per_second).min(BURST_BYTES)
    }
}

impl RewriteRates {
    /// Takes the bytes of an object from the bucket of a name: a namespace, "" for the cluster, or a node with a kind. Returns
    /// false if too much has been rewritten.
    fn take(&self, name: &str, bytes_per_second: f64, bytes: usize, now: Instant) -> bool {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = if let Some(bucket) = buckets.get(name) {
            bucket.bytes_at(now)
        } else {
            if buckets.len() >= BUCKETS_MAX {
                buckets.retain(|_, bucket| bucket.bytes_at(now) < BURST_BYTES);
            }
            if buckets.len() >= BUCKETS_MAX {
                return false;
            }
            BURST_BYTES
        };
        if left <= 0.0 {
            return false;
        }
        // An object is far smaller than the numbers that an f64 represents exactly.
        let bucket = Bucket {
            bytes_per_second,
            bytes: left - bytes as f64,
            updated: now,
        };
        buckets.insert(name.into(), bucket);
        true
    }
}

impl Resources {
    /// Counts a change of an object with this size.
    ///
    /// # Errors
    /// 429 if users have rewritten too much in the namespace, or the node too much of the kind. Administrators and components
    /// are never refused.
    pub(super) fn count_rewrite(
        &self,
        target: &Target,
        requester: Option<&Identity>,
        bytes: usize,
    ) -> Result<(), Failure> {
        let now = Instant::now();
        let Some(requester) = requester else { return Ok(()) };
        if let Some(node) = requester.node_name() {
            // Names of namespaces have no slash.
            let bucket = format!("{node}/{}", target.kind.plural);
            if self.rewrites.take(&bucket, NODE_BYTES_PER_SECOND, bytes, now) {
                return Ok(());
            }
            return Err(Failure::busy(
                "this node has rewritten too many bytes of this resource, please try again later",
            ));
        }
        if is_reserved_for(requester)
            || self
                .rewrites
                .take(target.namespace(), USER_BYTES_PER_SECOND, bytes, now)
        {
            return Ok(());
        }
        Err(Failure::busy(
            "users have rewritten too many bytes in this namespace, please try again later",
        ))
    }

    /// Counts the deletion of an object. The history keeps its previous and its last state.
    ///
    /// # Errors
    /// 429 if users have rewritten too much in the namespace, or the node too much of the kind.
    pub(crate) fn count_deletion(&self, target: &Target, requester: &Identity) -> Result<(), Failure> {
        let entry = self.store.index().get(&target.key());
        let bytes = entry.map_or(0, |entry| 2 * entry.value.len());
        self.count_rewrite(target, Some(requester), bytes)
    }
}
