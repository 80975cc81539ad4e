//! Rate at which users rewrite the objects of a namespace.
//!
//! The history of the store, from which watches continue, keeps the previous version of each changed object. One bound applies
//! to the histories of all kinds. An editor of one namespace could replace the whole history within a second, by changes of
//! large objects. A client whose list takes longer than a second could then begin no watch, and would list for ever.
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

/// Bytes that users may rewrite in a namespace at once: half of the history.
const BURST_BYTES: f64 = 16.0 * 1024.0 * 1024.0;
/// Bytes that users may rewrite in a namespace in a second. The history then lasts for a minute.
const BYTES_PER_SECOND: f64 = 256.0 * 1024.0;
/// Maximum number of namespaces in the table. When it is reached, namespaces without recent changes are dropped.
const NAMESPACES_MAX: usize = 10_000;

/// Rates of all namespaces.
#[derive(Debug, Default)]
pub(crate) struct RewriteRates(Mutex<HashMap<Box<str>, Bucket>>);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Bytes that may be rewritten; negative after a large object.
    bytes: f64,
    updated: Instant,
}

impl Bucket {
    fn bytes_at(self, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(self.updated).as_secs_f64();
        (self.bytes + seconds * BYTES_PER_SECOND).min(BURST_BYTES)
    }
}

impl RewriteRates {
    /// Takes the bytes of an object of a namespace, "" for the cluster. Returns false if the namespace has rewritten too much.
    fn take(&self, namespace: &str, bytes: usize, now: Instant) -> bool {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = if let Some(bucket) = buckets.get(namespace) {
            bucket.bytes_at(now)
        } else {
            if buckets.len() >= NAMESPACES_MAX {
                buckets.retain(|_, bucket| bucket.bytes_at(now) < BURST_BYTES);
            }
            if buckets.len() >= NAMESPACES_MAX {
                return false;
            }
            BURST_BYTES
        };
        if left <= 0.0 {
            return false;
        }
        // An object is far smaller than the numbers that an f64 represents exactly.
        let bucket = Bucket {
            bytes: left - bytes as f64,
            updated: now,
        };
        buckets.insert(namespace.into(), bucket);
        true
    }
}

impl Resources {
    /// Counts a change of an object with this size.
    ///
    /// # Errors
    /// 429 if users have rewritten too much in the namespace. Administrators, nodes and components are never refused.
    pub(super) fn count_rewrite(
        &self,
        target: &Target,
        requester: Option<&Identity>,
        bytes: usize,
    ) -> Result<(), Failure> {
        let is_counted = requester.is_some_and(|requester| !is_reserved_for(requester));
        if !is_counted || self.rewrites.take(target.namespace(), bytes, Instant::now()) {
            return Ok(());
        }
        Err(Failure::busy(
            "users have rewritten too many bytes in this namespace, please try again later",
        ))
    }

    /// Counts the deletion of an object. The history keeps its previous and its last state.
    ///
    /// # Errors
    /// 429 if users have rewritten too much in the namespace.
    pub(crate) fn count_deletion(&self, target: &Target, requester: &Identity) -> Result<(), Failure> {
        let entry = self.store.index().get(&target.key());
        let bytes = entry.map_or(0, |entry| 2 * entry.value.len());
        self.count_rewrite(target, Some(requester), bytes)
    }
}
